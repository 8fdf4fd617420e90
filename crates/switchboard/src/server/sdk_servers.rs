//! The in-process servers that config entries of type `sdk` refer to by name.
//!
//! The embedding program registers them. Invariant: a name has at most one server.

use std::collections::BTreeMap;
use std::sync::Mutex;

use switchboard_wire::ServerInstance;
use switchboard_wire::sync::lock;

/// The in-process servers of the embedding program, by name. Every connection attempt looks the
/// name up again, so the next attempt finds a server that was registered in the meantime.
#[derive(Debug, Default)]
pub(crate) struct SdkServers(Mutex<BTreeMap<String, ServerInstance>>);

impl SdkServers {
    pub(crate) fn new(servers: BTreeMap<String, ServerInstance>) -> Self {
        Self(Mutex::new(servers))
    }

    /// Adds a server. Returns the server that had this name before, if there was one.
    pub(crate) fn insert(&self, name: String, server: ServerInstance) -> Option<ServerInstance> {
        lock(&self.0).insert(name, server)
    }

    pub(crate) fn remove(&self, name: &str) -> Option<ServerInstance> {
        lock(&self.0).remove(name)
    }

    /// Returns the server of this name. If there is none, the error holds the names of all
    /// registered servers.
    pub(crate) fn find(&self, name: &str) -> Result<ServerInstance, Vec<String>> {
        let servers = lock(&self.0);
        let server = servers.get(name).cloned();
        server.ok_or_else(|| servers.keys().cloned().collect())
    }
}
