//! Routes `mcp_message` requests of the CLI to in-process servers.
//!
//! Invariant: every message gets a response. This includes notifications and messages to unknown
//! servers, because the CLI waits up to 30 s for a response to each message. Each server receives
//! its messages in the order in which [`InProcessServers::message`] was called.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use switchboard::in_process::{JsonRpcAdapter, ServerInstance};
use switchboard::mcp::{ErrorObject, Json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tool_list::EncodedNames;
use super::{manifest, tool_list};
use crate::lenient_json;

/// Capacity of the queue for notifications of all servers. When it is full, each server's forwarder
/// task waits.
const NOTIFICATION_QUEUE: usize = 64;

pub(crate) struct InProcessServers {
    /// The servers with their names, in the order of the configuration.
    servers: Mutex<Vec<(String, ConnectedServer)>>,
    notifications: mpsc::Sender<(String, Json)>,
    call_timeout: Duration,
    /// Names of the servers whose tools are marked as always loaded.
    always_loaded: HashSet<String>,
}

struct ConnectedServer {
    /// Cancels `replaced` when the server is removed. Must be declared before `adapter`, so that it
    /// is dropped first: dropping the adapter ends the calls, which then check `replaced`.
    _cancel_replaced: DropGuard,
    replaced: CancellationToken,
    encoded_names: Arc<EncodedNames>,
    instance: ServerInstance,
    adapter: JsonRpcAdapter,
    /// The task that forwards notifications of the server. It is aborted when the server is
    /// removed.
    _forwarder: JoinSet<()>,
}

impl InProcessServers {
    /// Connects to the servers. The receiver yields each notification of a server together with the
    /// server's name.
    pub(crate) fn new(
        servers: Vec<(String, ServerInstance)>,
        call_timeout: Duration,
    ) -> (Self, mpsc::Receiver<(String, Json)>) {
        let (notifications, receiver) = mpsc::channel(NOTIFICATION_QUEUE);
        let all = Self {
            servers: Mutex::default(),
            notifications,
            call_timeout,
            always_loaded: HashSet::new(),
        };
        all.replace(servers);
        (all, receiver)
    }

    /// Marks the tools of the servers with these names as always loaded. The CLI honours the
    /// setting `alwaysLoad` only for external servers. For in-process servers, it reads the
    /// metadata of each tool.
    pub(crate) fn with_always_load(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.always_loaded = names.into_iter().collect();
        self
    }

    /// The names of the current servers, in the order of the configuration.
    pub(crate) fn names(&self) -> Vec<String> {
        let servers = self.lock();
        servers.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Passes a message to a server and returns a future with the response. A notification, a
    /// response, or a request that the CLI has cancelled gets an empty result.
    ///
    /// The server has already received the message when this function returns, even if the future
    /// is never polled.
    pub(crate) fn message(
        &self,
        server: &str,
        message: &RawValue,
    ) -> impl Future<Output = Json> + Send + use<> {
        let (id, method) = request_head(message).unzip();
        let method = method.unwrap_or_default();
        let is_listing = method == "tools/list";
        let always_loaded = self.always_loaded.contains(server);
        let server = server.to_owned();
        let sent = self.find(&server).map(|(adapter, replaced, names)| {
            let mut message = lenient_json::replace_lone_surrogates(message.get());
            if method == "tools/call" {
                message = names.decode(message);
            }
            (adapter.handle(&message), replaced, names)
        });
        async move {
            let Some((response, replaced, names)) = sent else {
                let reason = format!("SDK MCP server \"{server}\" not found");
                return error_response(id, ErrorObject::METHOD_NOT_FOUND, reason);
            };
            match response.await {
                Some(response) if is_listing => {
                    let Ok(mut response) = response.to_value() else {
                        return response;
                    };
                    let tools = response.pointer_mut("/result/tools");
                    prepare_tools(&server, tools, &names, always_loaded);
                    Json::from(response)
                }
                Some(response) => response,
                // The call ended because the server was replaced. Respond with an error: after an
                // empty result, the CLI would wait minutes for the real response.
                None if replaced.is_cancelled() => {
                    let reason = format!("server {server} was replaced; retry the call");
                    error_response(id, ErrorObject::INTERNAL, reason)
                }
                None => empty_result(),
            }
        }
    }

    /// Requests the manifests of all servers. Servers that fail or do not respond in time are
    /// missing in the result.
    pub(crate) async fn manifests(&self) -> Map<String, Value> {
        let adapters: Vec<_> = {
            let servers = self.lock();
            let servers = servers.iter();
            servers
                .map(|(name, server)| {
                    let names = Arc::clone(&server.encoded_names);
                    (name.clone(), server.adapter.clone(), names)
                })
                .collect()
        };
        let manifests = adapters
            .into_iter()
            .map(|(name, adapter, names)| async move {
                let mut manifest = manifest::request_manifest(&adapter).await?;
                if let Some(handshake) = manifest.get_mut("initializeResult")
                    && let Ok(clean) = Json::from(&*handshake).sanitized().to_value()
                {
                    *handshake = clean;
                }
                let tools = manifest.pointer_mut("/toolsListResult/tools");
                prepare_tools(&name, tools, &names, self.always_loaded.contains(&name));
                Some((name, manifest))
            });
        join_all(manifests).await.into_iter().flatten().collect()
    }

    /// Replaces all servers. A server keeps its connection if its name is in `servers` with the
    /// same instance. The calls of all other previous servers end.
    pub(crate) fn replace(&self, servers: Vec<(String, ServerInstance)>) {
        let mut current = self.lock();
        let mut previous: HashMap<_, _> = std::mem::take(&mut *current).into_iter().collect();
        for (name, instance) in servers {
            let unchanged = previous.remove(&name);
            let unchanged = unchanged.filter(|server| server.instance.is_same(&instance));
            let server = unchanged.unwrap_or_else(|| self.connect(&name, instance));
            current.retain(|(other, _)| *other != name);
            current.push((name, server));
        }
    }

    fn connect(&self, name: &str, instance: ServerInstance) -> ConnectedServer {
        let (adapter, received) = JsonRpcAdapter::connect(&instance, self.call_timeout);
        let mut forwarder = JoinSet::new();
        let notifications = self.notifications.clone();
        forwarder.spawn(forward_notifications(
            name.to_owned(),
            received,
            notifications,
        ));
        let replaced = CancellationToken::new();
        ConnectedServer {
            _cancel_replaced: replaced.clone().drop_guard(),
            replaced,
            encoded_names: Arc::default(),
            instance,
            adapter,
            _forwarder: forwarder,
        }
    }

    fn find(&self, server: &str) -> Option<(JsonRpcAdapter, CancellationToken, Arc<EncodedNames>)> {
        let servers = self.lock();
        let (_, server) = servers.iter().find(|(name, _)| name == server)?;
        Some((
            server.adapter.clone(),
            server.replaced.clone(),
            Arc::clone(&server.encoded_names),
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, ConnectedServer)>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prepares a list of tools for the CLI: encodes names, sanitizes texts, marks the tools.
fn prepare_tools(
    server: &str,
    mut tools: Option<&mut Value>,
    names: &EncodedNames,
    always_loaded: bool,
) {
    names.encode(server, tools.as_deref_mut());
    if always_loaded {
        tool_list::mark_always_loaded(tools);
    }
}

async fn forward_notifications(
    name: String,
    mut received: mpsc::Receiver<Json>,
    notifications: mpsc::Sender<(String, Json)>,
) {
    while let Some(message) = received.recv().await {
        if notifications.send((name.clone(), message)).await.is_err() {
            return;
        }
    }
}

/// The response that the CLI expects to a message that has no response of its own, such as a
/// notification.
fn empty_result() -> Json {
    Json::from(&json!({"jsonrpc": "2.0", "result": {}}))
}

/// Returns the id and the method of a request. Returns `None` for notifications and responses.
fn request_head(message: &RawValue) -> Option<(Value, String)> {
    #[derive(Deserialize)]
    struct MessageHead {
        id: Option<Value>,
        method: Option<String>,
    }
    let head: MessageHead = serde_json::from_str(message.get()).ok()?;
    head.id.zip(head.method)
}

/// Builds an error response to a request. Returns an empty result if the message has no id.
fn error_response(id: Option<Value>, code: i64, reason: String) -> Json {
    let Some(id) = id else {
        return empty_result();
    };
    let error = ErrorObject::new(code, reason);
    Json::from(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}
