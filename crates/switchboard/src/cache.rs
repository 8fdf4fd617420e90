//! Caches the protocol era and the tools of servers between runs of a program.
//!
//! The embedding program implements [`ServerCache`] and decides where the cached values are stored.
//! Invariant: the cache is only an optimization. If it has no value for a server, the host asks the
//! server.

mod key;

use std::collections::HashMap;
use std::sync::Mutex;

pub use key::server_cache_key;

use switchboard_wire::mcp::{Era, ToolDefinition};
use switchboard_wire::sync::lock;

/// Stores the protocol era and the tools of each server. With a cached era, the host connects
/// without probing for the era. With cached tools, the catalog contains the tools of a lazy server
/// even before its first call starts it.
///
/// Every method gets the key of one server, as [`server_cache_key`] computes it.
pub trait ServerCache: Send + Sync + 'static {
    /// Returns the protocol era of the last successful handshake, or `None` if none is stored.
    fn era(&self, key: &str) -> Option<Era>;

    /// Stores the protocol era of a successful handshake.
    fn remember_era(&self, key: &str, era: Era);

    /// Removes the stored era. Called if the handshake with that era failed. The default does
    /// nothing.
    fn forget_era(&self, key: &str) {
        let _ = key;
    }

    /// Returns the tools that were stored last. The default returns `None`.
    fn tools(&self, key: &str) -> Option<Vec<ToolDefinition>> {
        let _ = key;
        None
    }

    /// Stores the tools of the last successful listing, in place of the tools that were stored
    /// before. The default does nothing.
    fn remember_tools(&self, key: &str, tools: &[ToolDefinition]) {
        let _ = (key, tools);
    }
}

/// A [`ServerCache`] in memory. Its content is lost when it is dropped.
#[derive(Debug, Default)]
pub struct InMemoryServerCache {
    eras: Mutex<HashMap<String, Era>>,
    tools: Mutex<HashMap<String, Vec<ToolDefinition>>>,
}

impl ServerCache for InMemoryServerCache {
    fn era(&self, key: &str) -> Option<Era> {
        lock(&self.eras).get(key).copied()
    }

    fn remember_era(&self, key: &str, era: Era) {
        lock(&self.eras).insert(key.to_owned(), era);
    }

    fn forget_era(&self, key: &str) {
        lock(&self.eras).remove(key);
    }

    fn tools(&self, key: &str) -> Option<Vec<ToolDefinition>> {
        lock(&self.tools).get(key).cloned()
    }

    fn remember_tools(&self, key: &str, tools: &[ToolDefinition]) {
        lock(&self.tools).insert(key.to_owned(), tools.to_vec());
    }
}
