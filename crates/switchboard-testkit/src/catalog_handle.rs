//! What a running server offers, for a test to change and to look at.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::script::{Flood, ListenEnding};
use crate::scripted::{ServerHandle, SharedState};

const UPDATED: &str = "notifications/resources/updated";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

/// What a running server offers besides tools, over all its connections and lives. Whatever changes it
/// tells everybody who asked for that, and comes back when it is told: a client that does not read holds
/// it up.
#[derive(Debug, Clone)]
pub struct CatalogHandle {
    memory: Arc<SharedState>,
}

impl CatalogHandle {
    pub(crate) fn new(memory: &Arc<SharedState>) -> Self {
        Self {
            memory: Arc::clone(memory),
        }
    }

    /// Changes what a resource holds, and tells whoever is subscribed to it. Panics if there is none.
    pub async fn set_resource(&self, uri: &str, text: &str) {
        let is_there = self.memory.stock().set_text(uri, text);
        assert!(is_there, "there is no resource {uri}");
        self.announce(UPDATED, json!({"uri": uri})).await;
    }

    /// Adds a resource, see [`crate::resource`].
    pub async fn add_resource(&self, resource: Value) {
        self.memory.stock().add_resource(resource);
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Takes a resource away. Panics if there is none.
    pub async fn remove_resource(&self, uri: &str) {
        let was_there = self.memory.stock().remove_resource(uri);
        assert!(was_there, "there is no resource {uri}");
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Offers these resources and no others.
    pub async fn set_resources(&self, resources: &[Value]) {
        self.memory.stock().set_resources(resources);
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Offers these prompts and no others.
    pub async fn set_prompts(&self, prompts: &[Value]) {
        self.memory.stock().set_prompts(prompts);
        self.announce(PROMPTS_CHANGED, json!({})).await;
    }

    /// Sends a notification to every client that wants it. That a list has changed or a resource was
    /// updated is wanted by those who asked for it, whatever else by all.
    pub async fn announce(&self, method: &str, params: Value) {
        for server in self.memory.running() {
            server.announce(method, &params).await;
        }
    }

    /// Sends many notifications.
    pub async fn flood(&self, flood: &Flood) {
        for server in self.memory.running() {
            server.flood(flood).await;
        }
    }

    /// Ends every open `subscriptions/listen`.
    pub fn end_listening(&self, ending: ListenEnding) {
        for server in self.memory.running() {
            server.end_listens(ending);
        }
    }

    /// Every resource that somebody is subscribed to now, once for each who is, sorted.
    pub fn subscribed(&self) -> Vec<String> {
        let running = self.memory.running();
        let mut uris: Vec<_> = running.iter().flat_map(ServerHandle::subscribed).collect();
        uris.sort();
        uris
    }

    /// What was acknowledged of each `subscriptions/listen` that is open.
    pub fn listening(&self) -> Vec<Value> {
        let running = self.memory.running();
        running.iter().flat_map(ServerHandle::listens).collect()
    }
}
