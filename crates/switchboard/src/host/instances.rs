//! Servers of this process, for a host that is running.

use super::{Host, ServerError};
use crate::id::ServerName;
use crate::status::ServerStatus;
use crate::sync::lock;
use crate::transport::memory::ServerInstance;

impl Host {
    /// Adds a server of this process and waits until it is connected. [`Host::disconnect`] lets go of
    /// it, and no more: it can be added again, here and to other hosts.
    pub async fn add_in_process_server(
        &self,
        name: &str,
        server: impl Into<ServerInstance>,
    ) -> Result<ServerStatus, ServerError> {
        let name = ServerName::new(name)?;
        let instance = server.into();
        let server = {
            let servers = &mut lock(&self.shared.servers);
            self.shared.add(servers, &name, |sites, place| {
                sites.spec_for_in_process(&name, instance, place)
            })?
        };
        server.settled().await;
        self.connected(&server)
    }

    /// Provides a server of this process for entries of the type `sdk` that name it, as
    /// [`HostBuilder::sdk_server`](crate::HostBuilder::sdk_server) does, and says what was there under this name. Whoever is connected
    /// to that stays so until it is reconnected, and an entry that failed for want of this name is tried
    /// again by [`Host::reconnect`].
    pub fn register_sdk_server(
        &self,
        name: impl Into<String>,
        server: impl Into<ServerInstance>,
    ) -> Option<ServerInstance> {
        self.shared.sites.instances.put(name.into(), server.into())
    }

    /// Provides the server of this name no more. Whoever is connected to it stays so.
    pub fn unregister_sdk_server(&self, name: &str) -> Option<ServerInstance> {
        self.shared.sites.instances.take(name)
    }
}
