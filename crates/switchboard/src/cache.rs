//! What is remembered of a server from one start to the next.

mod key;

pub use key::server_cache_key;

use std::collections::HashMap;
use std::sync::Mutex;

use crate::mcp::{Era, Tool};
use crate::sync::lock;

/// Remembers which era a server speaks and what it listed, so that the next start need not find
/// out again and a dormant server's tools are known. What is forgotten is only found out anew.
///
/// Keys are opaque, and differ whenever what would be run differs.
pub trait ServerCache: Send + Sync + 'static {
    /// The era that worked last time.
    fn era(&self, key: &str) -> Option<Era>;

    /// Keeps the era that worked.
    fn remember_era(&self, key: &str, era: Era);

    /// What was kept does not work any more.
    fn forget_era(&self, key: &str) {
        let _ = key;
    }

    /// The last listing.
    fn tools(&self, key: &str) -> Option<Vec<Tool>> {
        let _ = key;
        None
    }

    /// Keeps a listing.
    fn remember_tools(&self, key: &str, tools: &[Tool]) {
        let _ = (key, tools);
    }
}

/// Remembers for as long as the host lives.
#[derive(Debug, Default)]
pub struct InMemoryServerCache {
    eras: Mutex<HashMap<String, Era>>,
    tools: Mutex<HashMap<String, Vec<Tool>>>,
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

    fn tools(&self, key: &str) -> Option<Vec<Tool>> {
        lock(&self.tools).get(key).cloned()
    }

    fn remember_tools(&self, key: &str, tools: &[Tool]) {
        lock(&self.tools).insert(key.to_owned(), tools.to_vec());
    }
}
