//! A running server, for whoever holds its memory.

use std::sync::Arc;

use serde_json::Value;

use super::state::ServerState;
use crate::script::{Flood, ListenEnding};

/// One connection of a server that is played on lines, or one life of one that is not.
#[derive(Debug)]
pub(crate) struct ServerHandle(Arc<ServerState>);

impl ServerHandle {
    pub(super) fn new(shared: Arc<ServerState>) -> Self {
        Self(shared)
    }

    pub(crate) async fn announce(&self, method: &str, params: &Value) {
        let _ = self.0.announce(method, Some(params)).await;
    }

    pub(crate) async fn flood(&self, flood: &Flood) {
        let _ = self.0.flood(flood).await;
    }

    pub(crate) fn end_listens(&self, ending: ListenEnding) {
        self.0.end_listens(ending);
    }

    pub(crate) fn subscribed(&self) -> Vec<String> {
        self.0.subscribed()
    }

    pub(crate) fn listens(&self) -> Vec<Value> {
        self.0.listens()
    }
}
