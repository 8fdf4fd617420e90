//! Forwards the change notifications of a server that is called directly, and stores which
//! resources the client is subscribed to.
//!
//! While the channel to the client is full, notifications are pending and equal ones are merged.
//! Invariant: at most one notification is pending per list (tools, resources, prompts) and per
//! subscribed resource, so the number of pending notifications is bounded.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::json;
use switchboard_wire::ServerNotification;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::sync::lock;
use tokio::sync::{broadcast, mpsc};

use super::jsonrpc;

/// Maximum number of resource subscriptions of the client. Further ones fail.
const MAX_SUBSCRIPTIONS: usize = 1024;

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// The URIs of the resources to which the client is subscribed.
#[derive(Default)]
pub(super) struct ResourceSubscriptions(Mutex<HashSet<Box<str>>>);

impl ResourceSubscriptions {
    pub(super) fn add(&self, uri: &str) -> Result<(), ErrorObject> {
        let mut uris = lock(&self.0);
        if uris.len() >= MAX_SUBSCRIPTIONS && !uris.contains(uri) {
            return Err(ErrorObject::new(
                ErrorObject::INVALID_REQUEST,
                format!(
                    "the limit of {MAX_SUBSCRIPTIONS} subscriptions is reached; unsubscribe from one first"
                ),
            ));
        }
        uris.insert(uri.into());
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        lock(&self.0).remove(uri);
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }

    fn contains(&self, uri: &str) -> bool {
        lock(&self.0).contains(uri)
    }

    fn all(&self) -> Vec<Arc<str>> {
        lock(&self.0).iter().map(|uri| (**uri).into()).collect()
    }
}

/// Notifications to send as soon as the channel to the client has room. Equal ones are merged.
#[derive(Default)]
pub(super) struct PendingNotifications {
    list_changed: BTreeSet<&'static str>,
    updated_uris: BTreeSet<Arc<str>>,
}

impl PendingNotifications {
    /// Adds a `list_changed` notification. Returns false and adds nothing if `method` is not a
    /// `list_changed` method.
    pub(super) fn add_list_changed(&mut self, method: &str) -> bool {
        let methods = [TOOLS_CHANGED, RESOURCES_CHANGED, PROMPTS_CHANGED];
        let known = methods.into_iter().find(|known| *known == method);
        self.list_changed.extend(known);
        known.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list_changed.is_empty() && self.updated_uris.is_empty()
    }

    /// Removes the next notification and returns it as a JSON-RPC message.
    pub(super) fn pop_message(&mut self) -> Option<Json> {
        if let Some(method) = self.list_changed.pop_first() {
            return Some(jsonrpc::notification(method, None));
        }
        let uri = self.updated_uris.pop_first()?;
        let params = json!({"uri": *uri});
        Some(jsonrpc::notification(RESOURCE_UPDATED, Some(params)))
    }

    fn add(&mut self, notification: ServerNotification, subscriptions: &ResourceSubscriptions) {
        match notification {
            ServerNotification::ToolsChanged => {
                self.list_changed.insert(TOOLS_CHANGED);
            }
            ServerNotification::ResourcesChanged => {
                self.list_changed.insert(RESOURCES_CHANGED);
            }
            ServerNotification::PromptsChanged => {
                self.list_changed.insert(PROMPTS_CHANGED);
            }
            ServerNotification::ResourceUpdated(uri) if subscriptions.contains(&uri) => {
                self.updated_uris.insert(uri);
            }
            ServerNotification::ResourceUpdated(_) => {}
        }
    }

    /// Adds all list changes and an update of every subscribed resource, because notifications
    /// of the server were missed.
    fn add_all(&mut self, subscriptions: &ResourceSubscriptions) {
        self.list_changed
            .extend([TOOLS_CHANGED, RESOURCES_CHANGED, PROMPTS_CHANGED]);
        self.updated_uris.extend(subscriptions.all());
    }
}

/// Forwards the notifications of a server to the client until the server closes its channel or the
/// client drops its receiver.
pub(super) async fn forward_notifications(
    mut notifications: broadcast::Receiver<ServerNotification>,
    subscriptions: Arc<ResourceSubscriptions>,
    server_messages: mpsc::Sender<Json>,
) {
    let mut pending = PendingNotifications::default();
    loop {
        tokio::select! {
            biased;
            notification = notifications.recv() => match notification {
                Ok(notification) => pending.add(notification, &subscriptions),
                Err(broadcast::error::RecvError::Lagged(_)) => pending.add_all(&subscriptions),
                Err(broadcast::error::RecvError::Closed) => break,
            },
            permit = server_messages.reserve(), if !pending.is_empty() => {
                let Ok(permit) = permit else { return };
                if let Some(message) = pending.pop_message() {
                    permit.send(message);
                }
            }
            () = server_messages.closed() => return,
        }
    }
    while let Some(message) = pending.pop_message() {
        if server_messages.send(message).await.is_err() {
            return;
        }
    }
}
