//! A handle through which tests notify the clients of a running server and list its subscriptions.

use std::sync::Arc;

use serde_json::Value;

use super::state::ServerState;
use crate::script::{Flood, ListenEnding};

/// One connection of a stream server, or one run of an HTTP server.
#[derive(Debug)]
pub(crate) struct ServerHandle(Arc<ServerState>);

impl ServerHandle {
    pub(super) fn new(state: Arc<ServerState>) -> Self {
        Self(state)
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
