//! Lets a test change and inspect the resources, prompts and subscriptions of a running server.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::script::{Flood, ListenEnding};
use crate::scripted::{ServerHandle, SharedState};

const UPDATED: &str = "notifications/resources/updated";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

/// The resources and prompts of a running server, over all its connections and restarts. Each
/// change notifies the subscribed clients and returns when the notifications are sent, so a client
/// that does not read delays the test.
#[derive(Debug, Clone)]
pub struct CatalogHandle {
    shared: Arc<SharedState>,
}

impl CatalogHandle {
    pub(crate) fn new(shared: &Arc<SharedState>) -> Self {
        Self {
            shared: Arc::clone(shared),
        }
    }

    /// Changes the content of a resource and notifies its subscribers. Panics if the resource is
    /// unknown.
    pub async fn set_resource(&self, uri: &str, text: &str) {
        let exists = self.shared.catalog().set_text(uri, text);
        assert!(exists, "unknown resource {uri}");
        self.announce(UPDATED, json!({"uri": uri})).await;
    }

    /// Adds a resource, see [`crate::resource`].
    pub async fn add_resource(&self, resource: Value) {
        self.shared.catalog().add_resource(resource);
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Removes a resource. Panics if the resource is unknown.
    pub async fn remove_resource(&self, uri: &str) {
        let existed = self.shared.catalog().remove_resource(uri);
        assert!(existed, "unknown resource {uri}");
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Replaces all resources.
    pub async fn set_resources(&self, resources: &[Value]) {
        self.shared.catalog().set_resources(resources);
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Replaces all prompts.
    pub async fn set_prompts(&self, prompts: &[Value]) {
        self.shared.catalog().set_prompts(prompts);
        self.announce(PROMPTS_CHANGED, json!({})).await;
    }

    /// Sends a notification. List changes and resource updates go to the subscribed clients, all
    /// other methods to every client.
    pub async fn announce(&self, method: &str, params: Value) {
        for server in self.shared.running() {
            server.announce(method, &params).await;
        }
    }

    /// Sends a burst of notifications.
    pub async fn flood(&self, flood: &Flood) {
        for server in self.shared.running() {
            server.flood(flood).await;
        }
    }

    /// Ends every open `subscriptions/listen`.
    pub fn end_listens(&self, ending: ListenEnding) {
        for server in self.shared.running() {
            server.end_listens(ending);
        }
    }

    /// The URIs of all current subscriptions, sorted; a URI appears once per subscriber.
    pub fn subscribed(&self) -> Vec<String> {
        let running = self.shared.running();
        let mut uris: Vec<_> = running.iter().flat_map(ServerHandle::subscribed).collect();
        uris.sort();
        uris
    }

    /// The acknowledged filter of each open `subscriptions/listen`.
    pub fn listen_filters(&self) -> Vec<Value> {
        let running = self.shared.running();
        running.iter().flat_map(ServerHandle::listens).collect()
    }
}
