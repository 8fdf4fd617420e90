//! The clients that receive notifications, and what each has subscribed to.
//!
//! A client of the modern era listens with an open `subscriptions/listen` request, a client of the
//! legacy era with its session. Invariant: of the notifications that a filter can select, a
//! modern-era client receives only those in its filter. A legacy-era client receives updates only
//! of the resources that it subscribed to.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::defaults::is_modern;
use super::message::Request;
use super::notification_line;
use super::output::{Chunk, HandlerOutput};
use super::state::{SUBSCRIPTION_ID, ServerState, StepsStopped};
use crate::script::{Flood, ListenEnding, Script};

pub(super) const UPDATED: &str = "notifications/resources/updated";
pub(super) const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
pub(super) const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const TASKS: &str = "notifications/tasks";
pub(super) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// All clients of one server that receive notifications.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// The open `subscriptions/listen` requests, oldest first.
    listens: Vec<Listen>,
    /// The clients of the legacy era that have sent a request, oldest first.
    legacy_clients: Vec<LegacyClient>,
}

/// An open `subscriptions/listen` request of a modern-era client.
#[derive(Debug)]
struct Listen {
    id: Value,
    /// Where the server writes notifications for this request; `None`: to stdout.
    output: Option<Arc<dyn HandlerOutput>>,
    /// The filter that the server acknowledged.
    filter: Value,
    /// Number of notifications sent for this request so far.
    delivered: u64,
    /// Ends the request: tells the handler of the request in which way to end it.
    end: oneshot::Sender<ListenEnding>,
}

/// A client session of the legacy era.
#[derive(Debug)]
struct LegacyClient {
    scope: String,
    /// Where the server writes notifications for this client; `None`: to stdout.
    output: Option<Arc<dyn HandlerOutput>>,
    /// The URIs of the resources that the client subscribed to.
    subscribed_uris: BTreeSet<String>,
}

/// One destination of a notification.
struct Recipient {
    output: Option<Arc<dyn HandlerOutput>>,
    /// The subscription id to add to the notification; `None` for a legacy-era client.
    id: Option<Value>,
    /// Set if the `subscriptions/listen` request ends after this notification.
    end: Option<oneshot::Sender<ListenEnding>>,
}

impl Listen {
    fn wants(&self, method: &str, params: Option<&Value>) -> bool {
        let requested = |key: &str| {
            self.filter
                .get(key)
                .is_some_and(|requested| requested == true)
        };
        match method {
            TOOLS_CHANGED => requested("toolsListChanged"),
            PROMPTS_CHANGED => requested("promptsListChanged"),
            RESOURCES_CHANGED => requested("resourcesListChanged"),
            UPDATED => uris(&self.filter).any(|uri| Some(uri) == uri_of(params)),
            TASKS => {
                let id = params.and_then(|params| params.get("taskId"));
                let task_ids = self.filter.get("taskIds").and_then(Value::as_array);
                task_ids.is_some_and(|ids| ids.iter().any(|listed| Some(listed) == id))
            }
            // No filter can select any other method. Such a notification goes to every client.
            _ => true,
        }
    }

    fn is_open(&self) -> bool {
        self.output.as_ref().is_none_or(|output| output.is_open())
    }
}

impl LegacyClient {
    fn wants(&self, method: &str, params: Option<&Value>) -> bool {
        method != UPDATED || uri_of(params).is_some_and(|uri| self.subscribed_uris.contains(uri))
    }

    fn is_open(&self) -> bool {
        let accepts = |output: &Arc<dyn HandlerOutput>| output.accepts_notifications();
        self.output.as_ref().is_none_or(accepts)
    }
}

fn uri_of(params: Option<&Value>) -> Option<&str> {
    params?.get("uri")?.as_str()
}

fn uris(filter: &Value) -> impl Iterator<Item = &str> {
    let uris = filter
        .get("resourceSubscriptions")
        .and_then(Value::as_array);
    uris.into_iter().flatten().filter_map(Value::as_str)
}

/// The part of a requested filter that the capabilities declare and the script accepts.
pub(super) fn acknowledge(script: &Script, requested: &Value) -> Value {
    let declared = |capability: &str, what: &str| {
        let capability = script.capabilities.get(capability);
        capability.and_then(|capability| capability.get(what)) == Some(&json!(true))
    };
    let accepted = |key: &str| {
        script
            .listen_options
            .accepted_filter
            .as_ref()
            .map(|all| all.get(key))
    };
    let mut filter = json!({});
    for (key, capability) in [
        ("toolsListChanged", "tools"),
        ("promptsListChanged", "prompts"),
        ("resourcesListChanged", "resources"),
    ] {
        let is_accepted =
            accepted(key).is_none_or(|accepted_value| accepted_value == Some(&json!(true)));
        if requested.get(key) == Some(&json!(true))
            && declared(capability, "listChanged")
            && is_accepted
        {
            insert(&mut filter, key, json!(true));
        }
    }
    if requested.get("resourceSubscriptions").is_some() && declared("resources", "subscribe") {
        let accepted_value = accepted("resourceSubscriptions");
        let is_accepted = |uri: &str| {
            let all = accepted_value.as_ref();
            all.is_none_or(|all| {
                let all = all.and_then(Value::as_array);
                all.is_some_and(|all| all.iter().any(|found| found == uri))
            })
        };
        let accepted: Vec<_> = uris(requested).filter(|uri| is_accepted(uri)).collect();
        if !accepted.is_empty() {
            insert(&mut filter, "resourceSubscriptions", json!(accepted));
        }
    }
    if let Some(ids) = requested.get("taskIds").filter(|_| has_tasks(script)) {
        insert(&mut filter, "taskIds", ids.clone());
    }
    filter
}

fn has_tasks(script: &Script) -> bool {
    let extensions = script.capabilities.get("extensions");
    extensions.is_some_and(|all| all.get("io.modelcontextprotocol/tasks").is_some())
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(key.to_owned(), value);
    }
}

/// Registration.
impl ServerState {
    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().expect("the lock is not poisoned")
    }

    /// Registers the client of a legacy-era request as a recipient of notifications, if it is new.
    pub(super) fn register_client(
        &self,
        scope: &str,
        request: &Request,
        output: Option<&Arc<dyn HandlerOutput>>,
    ) {
        // A `server/discover` probe does not start a session.
        if request.method == "server/discover" || is_modern(&self.script(), request) {
            return;
        }
        let mut listeners = self.listeners();
        if !listeners
            .legacy_clients
            .iter()
            .any(|known| known.scope == scope)
        {
            listeners.legacy_clients.push(LegacyClient {
                scope: scope.to_owned(),
                output: output.cloned(),
                subscribed_uris: BTreeSet::new(),
            });
        }
    }

    pub(super) fn listen(
        &self,
        id: &Value,
        filter: Value,
        output: Option<Arc<dyn HandlerOutput>>,
    ) -> oneshot::Receiver<ListenEnding> {
        let (end, ended) = oneshot::channel();
        self.listeners().listens.push(Listen {
            id: id.clone(),
            output,
            filter,
            delivered: 0,
            end,
        });
        self.platform.notify_change();
        ended
    }

    pub(super) fn stop_listening(&self, id: &Value) {
        self.listeners().listens.retain(|listen| listen.id != *id);
        self.platform.notify_change();
    }

    pub(super) fn subscribe(&self, scope: &str, uri: &str) {
        self.change_subscriptions(scope, |subscribed_uris| {
            subscribed_uris.insert(uri.to_owned())
        });
    }

    pub(super) fn unsubscribe(&self, scope: &str, uri: &str) {
        self.change_subscriptions(scope, |subscribed_uris| subscribed_uris.remove(uri));
    }

    fn change_subscriptions(
        &self,
        scope: &str,
        change: impl FnOnce(&mut BTreeSet<String>) -> bool,
    ) {
        let mut listeners = self.listeners();
        let mut legacy_clients = listeners.legacy_clients.iter_mut();
        if let Some(client) = legacy_clients.find(|client| client.scope == scope) {
            change(&mut client.subscribed_uris);
        }
        drop(listeners);
        self.platform.notify_change();
    }

    /// The URIs of all current resource subscriptions. A URI with two subscribers appears twice.
    pub(super) fn subscribed(&self) -> Vec<String> {
        let mut listeners = self.listeners();
        listeners.remove_closed();
        let listens = listeners
            .listens
            .iter()
            .flat_map(|listen| uris(&listen.filter));
        let legacy_clients = listeners
            .legacy_clients
            .iter()
            .flat_map(|client| &client.subscribed_uris);
        let legacy_clients = legacy_clients.map(String::as_str);
        listens.chain(legacy_clients).map(str::to_owned).collect()
    }

    /// The filter that the server acknowledged for each open `subscriptions/listen` request.
    pub(super) fn listens(&self) -> Vec<Value> {
        let mut listeners = self.listeners();
        listeners.remove_closed();
        let filter = |listen: &Listen| listen.filter.clone();
        listeners.listens.iter().map(filter).collect()
    }

    pub(super) fn end_listens(&self, ending: ListenEnding) {
        let listens = std::mem::take(&mut self.listeners().listens);
        for listen in listens {
            let _ = listen.end.send(ending);
        }
        self.platform.notify_change();
    }

    /// Removes all listeners.
    pub(super) fn clear_listeners(&self) {
        *self.listeners() = Listeners::default();
        self.platform.notify_change();
    }
}

impl Listeners {
    fn remove_closed(&mut self) {
        self.listens.retain(Listen::is_open);
        self.legacy_clients.retain(LegacyClient::is_open);
    }
}

/// Sending.
impl ServerState {
    /// Sends a notification, with the subscription id, to each open `subscriptions/listen` request
    /// whose filter matches. Returns whether any such request was open, even if no filter matched.
    pub(super) async fn publish(
        &self,
        method: &str,
        params: Option<&Value>,
    ) -> Result<bool, StepsStopped> {
        drop(self.ack_lock.lock().await);
        let (recipients, has_listens) = {
            let mut listeners = self.listeners();
            listeners.remove_closed();
            let has_listens = !listeners.listens.is_empty();
            (
                self.take_recipients(&mut listeners, method, params),
                has_listens,
            )
        };
        self.send_to_recipients(recipients, method, params).await?;
        Ok(has_listens)
    }

    /// Sends a notification to the modern clients that subscribed to it and to all legacy clients.
    /// Legacy clients get updates of a resource only if they subscribed to the resource.
    pub(super) async fn announce(
        &self,
        method: &str,
        params: Option<&Value>,
    ) -> Result<(), StepsStopped> {
        drop(self.ack_lock.lock().await);
        let recipients = {
            let mut listeners = self.listeners();
            listeners.remove_closed();
            let mut recipients = self.take_recipients(&mut listeners, method, params);
            let legacy_clients = listeners.legacy_clients.iter();
            let subscribed_clients = legacy_clients.filter(|client| client.wants(method, params));
            recipients.extend(subscribed_clients.map(|client| Recipient {
                output: client.output.clone(),
                id: None,
                end: None,
            }));
            recipients
        };
        self.send_to_recipients(recipients, method, params).await
    }

    fn take_recipients(
        &self,
        listeners: &mut Listeners,
        method: &str,
        params: Option<&Value>,
    ) -> Vec<Recipient> {
        let max = self.script().listen_options.ends_after;
        let listens = std::mem::take(&mut listeners.listens);
        let mut recipients = Vec::new();
        for mut listen in listens {
            if !listen.wants(method, params) {
                listeners.listens.push(listen);
                continue;
            }
            listen.delivered += 1;
            let mut recipient = Recipient {
                output: listen.output.clone(),
                id: Some(listen.id.clone()),
                end: None,
            };
            if max.is_some_and(|max| listen.delivered >= max) {
                recipient.end = Some(listen.end);
            } else {
                listeners.listens.push(listen);
            }
            recipients.push(recipient);
        }
        recipients
    }

    async fn send_to_recipients(
        &self,
        recipients: Vec<Recipient>,
        method: &str,
        params: Option<&Value>,
    ) -> Result<(), StepsStopped> {
        for Recipient { output, id, end } in recipients {
            let line = match &id {
                Some(id) => notification_line(method, Some(&with_subscription_id(params, id))),
                None => notification_line(method, params),
            };
            // An HTTP client may just have disconnected, so ignore errors of its output.
            match (output, &id) {
                (Some(output), Some(_)) => _ = output.put(Chunk::Line(line)).await,
                (Some(output), None) => _ = output.put_notification(Chunk::Line(line)).await,
                (None, _) => self.write_line(&line).await?,
            }
            if let Some(end) = end {
                let _ = end.send(self.script().listen_options.ending);
            }
        }
        Ok(())
    }

    /// Sends one notification many times, each time as [`announce`](Self::announce) does.
    pub(super) async fn flood(&self, flood: &Flood) -> Result<(), StepsStopped> {
        let (method, params) = match (&flood.method, &flood.uri) {
            (Some(method), uri) => (method.as_str(), uri.as_ref().map(|uri| json!({"uri": uri}))),
            (None, Some(uri)) => (UPDATED, Some(json!({"uri": uri}))),
            (None, None) => (RESOURCES_CHANGED, None),
        };
        let pause = flood
            .per_second
            .map(|rate| Duration::from_secs(1) / at_least_one(rate));
        for _ in 0..flood.count {
            self.announce(method, params.as_ref()).await?;
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                // Yield, so that a flood without a rate does not starve other tokio tasks.
                None => tokio::task::yield_now().await,
            }
        }
        Ok(())
    }

    /// Spawns a tokio task for each resource that changes periodically. Once per period, the task
    /// increments the counter of its resource and notifies the subscribers.
    pub(super) fn start_clocks(self: &Arc<Self>) {
        for (uri, period) in self.platform.catalog().clocks() {
            let state = Arc::clone(self);
            self.spawn(async move {
                loop {
                    tokio::time::sleep(period).await;
                    state.platform.catalog().advance(&uri);
                    let params = json!({"uri": uri});
                    if state.announce(UPDATED, Some(&params)).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
}

fn at_least_one(rate: u64) -> u32 {
    u32::try_from(rate).unwrap_or(u32::MAX).max(1)
}

/// Returns the parameters with the subscription id added to `_meta`.
fn with_subscription_id(params: Option<&Value>, id: &Value) -> Value {
    let mut params = params.cloned().unwrap_or_else(|| json!({}));
    if let Some(params) = params.as_object_mut() {
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        insert(meta, SUBSCRIPTION_ID, id.clone());
    }
    params
}
