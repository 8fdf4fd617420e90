//! Caches the protocol era and the tools of servers between runs of a program.
//!
//! The embedding program implements [`ServerCache`] and decides where the entries are stored.
//! Invariant: the cache is an optimization. Without an entry the host asks the server.

mod key;

use std::collections::HashMap;
use std::sync::Mutex;

pub use key::server_cache_key;

use switchboard_wire::mcp::{Era, ToolDefinition};
use switchboard_wire::sync::lock;

/// Stores the protocol era and the tools of each server. The next start then needs no probing, and
/// the tools of a server are known before it is started.
///
/// Keys are opaque; see [`server_cache_key`].
pub trait ServerCache: Send + Sync + 'static {
    /// The protocol era of the last successful handshake.
    fn era(&self, key: &str) -> Option<Era>;

    /// Stores the protocol era of a successful handshake.
    fn remember_era(&self, key: &str, era: Era);

    /// Removes the stored era, because it no longer works.
    fn forget_era(&self, key: &str) {
        let _ = key;
    }

    /// The last listing of tools.
    fn tools(&self, key: &str) -> Option<Vec<ToolDefinition>> {
        let _ = key;
        None
    }

    /// Stores a listing of tools.
    fn remember_tools(&self, key: &str, tools: &[ToolDefinition]) {
        let _ = (key, tools);
    }
}

/// A cache in memory. It is lost when the host stops.
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
