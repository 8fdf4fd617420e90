//! Lets a test change and inspect the resources, prompts and subscriptions of a running server.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::script::{Flood, ListenEnding};
use crate::scripted::{ServerHandle, SharedState};

const UPDATED: &str = "notifications/resources/updated";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

/// Changes the resources and prompts of a running server and lists its subscriptions. A handle
/// covers all connections of the server and stays valid after a restart. Each method that changes
/// resources or prompts notifies clients as [`CatalogHandle::announce`] does. It returns when the
/// notifications are sent, so a client that does not read blocks the test.
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

    /// Adds a resource (see [`crate::resource`]) and sends `notifications/resources/list_changed`.
    pub async fn add_resource(&self, resource: Value) {
        self.shared.catalog().add_resource(resource);
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Removes a resource and sends `notifications/resources/list_changed`. Panics if the resource
    /// is unknown.
    pub async fn remove_resource(&self, uri: &str) {
        let existed = self.shared.catalog().remove_resource(uri);
        assert!(existed, "unknown resource {uri}");
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Replaces all resources and sends `notifications/resources/list_changed`.
    pub async fn set_resources(&self, resources: &[Value]) {
        self.shared.catalog().set_resources(resources);
        self.announce(RESOURCES_CHANGED, json!({})).await;
    }

    /// Replaces all prompts and sends `notifications/prompts/list_changed`.
    pub async fn set_prompts(&self, prompts: &[Value]) {
        self.shared.catalog().set_prompts(prompts);
        self.announce(PROMPTS_CHANGED, json!({})).await;
    }

    /// Sends a notification. It goes to every open `subscriptions/listen` request whose filter
    /// selects it or cannot select its method, and to every client of the legacy era. An update of
    /// a resource goes only to the legacy clients that subscribed to the resource.
    pub async fn announce(&self, method: &str, params: Value) {
        for server in self.shared.running() {
            server.announce(method, &params).await;
        }
    }

    /// Sends the notifications of `flood` and returns when all are sent.
    pub async fn flood(&self, flood: &Flood) {
        for server in self.shared.running() {
            server.flood(flood).await;
        }
    }

    /// Ends every open `subscriptions/listen` request in the way that `ending` says.
    pub fn end_listens(&self, ending: ListenEnding) {
        for server in self.shared.running() {
            server.end_listens(ending);
        }
    }

    /// The URIs of all current resource subscriptions, sorted. A URI to which two clients are
    /// subscribed appears twice.
    pub fn subscribed(&self) -> Vec<String> {
        let running = self.shared.running();
        let mut uris: Vec<_> = running.iter().flat_map(ServerHandle::subscribed).collect();
        uris.sort();
        uris
    }

    /// The filter that the server acknowledged for each open `subscriptions/listen` request.
    pub fn listen_filters(&self) -> Vec<Value> {
        let running = self.shared.running();
        running.iter().flat_map(ServerHandle::listens).collect()
    }
}
