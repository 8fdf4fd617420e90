//! Transports that carry whole messages: [`Transport`] to reach a server by the program's own means,
//! and [`ServerTransport`] to hand a server of the host to other code.
//!
//! A program that implements [`Transport`] adds the server with
//! [`HostBuilder::transport`](crate::HostBuilder::transport). The host then connects, lists tools,
//! reconnects and checks permissions as for any other server:
//!
//! ```
//! use std::io;
//!
//! use serde_json::{Value, json};
//! use switchboard::mcp::Json;
//! use switchboard::transport::{BoxFuture, Transport};
//! use switchboard::{Host, Readiness};
//! use tokio::sync::{Mutex, mpsc};
//!
//! /// A server that answers in this process. A real transport would send to a message broker.
//! struct Echo {
//!     responses: mpsc::Sender<Json>,
//!     inbox: Mutex<mpsc::Receiver<Json>>,
//! }
//!
//! fn response_to(request: &Value) -> Option<Value> {
//!     let result = match request["method"].as_str()? {
//!         "initialize" => json!({
//!             "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
//!             "serverInfo": {"name": "echo", "version": "1"},
//!         }),
//!         "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
//!         "tools/call" => {
//!             let text = request["params"]["arguments"]["text"].clone();
//!             json!({"content": [{"type": "text", "text": text}]})
//!         }
//!         method => {
//!             let error = json!({"code": -32601, "message": format!("unknown method {method}")});
//!             let id = request.get("id")?;
//!             return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
//!         }
//!     };
//!     Some(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
//! }
//!
//! impl Transport for Echo {
//!     fn connect(&self) -> BoxFuture<'_, io::Result<()>> {
//!         Box::pin(async { Ok(()) })
//!     }
//!
//!     fn send(&self, message: Json) -> BoxFuture<'_, io::Result<()>> {
//!         Box::pin(async move {
//!             let Some(response) = response_to(&message.to_value()?) else { return Ok(()) };
//!             self.responses.send(Json::from(&response)).await.map_err(io::Error::other)
//!         })
//!     }
//!
//!     fn receive(&self) -> BoxFuture<'_, io::Result<Option<Json>>> {
//!         Box::pin(async { Ok(self.inbox.lock().await.recv().await) })
//!     }
//!
//!     fn close(&self) -> BoxFuture<'_, ()> {
//!         Box::pin(async {})
//!     }
//!
//!     fn is_connected(&self) -> bool {
//!         true
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (responses, inbox) = mpsc::channel(64);
//! let echo = Echo { responses, inbox: inbox.into() };
//! let host = Host::builder().transport("echo", echo).allow("mcp__echo").start()?;
//! host.wait_for(Readiness::All).await;
//! let output = host.call("mcp__echo__echo", json!({"text": "hello"})).await?;
//! assert_eq!(output.to_text(), "hello");
//! host.shutdown().await;
//! # Ok(())
//! # }
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use switchboard_client::session::Session;
use switchboard_wire::mcp::{ContentBlock, Era, ErrorObject, Json, ProtocolVersion};
pub use switchboard_wire::{BoxFuture, Transport};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::content::{Block, Output};
use crate::host::Host;
use crate::id::{ServerName, ToolId};
use crate::query::QueryError;
use crate::{CallError, call::Delivery};

/// How many responses wait for [`Transport::receive`]. Further requests wait until the caller has
/// received one.
const MAX_WAITING_RESPONSES: usize = 64;
/// Code of the JSON-RPC errors for requests that the host did not send or that got no response.
const HOST_ERROR: i64 = -32000;

impl Host {
    /// Offers a server as a [`Transport`], for code that speaks MCP itself. Works for servers of
    /// every kind. An in-process server offers only its tools; for all its methods use
    /// [`JsonRpcAdapter`](crate::in_process::JsonRpcAdapter).
    pub fn transport(&self, server: &str) -> Result<ServerTransport, QueryError> {
        let server = self.state().query_server(server)?;
        let (responses, inbox) = mpsc::channel(MAX_WAITING_RESPONSES);
        Ok(ServerTransport {
            host: self.clone(),
            server: server.settings().name.clone(),
            responses,
            inbox: Mutex::new(inbox),
            session: std::sync::Mutex::default(),
            is_open: AtomicBool::new(false),
        })
    }
}

/// A server of a host as a [`Transport`]. [`Host::transport`] creates it.
///
/// The host keeps the connection. It performed the handshake with the server, so this transport
/// answers `initialize` and `ping` itself. It executes `tools/call` like [`Host::call`], with the
/// checks of the host, so the texts in a result are sanitized. It passes on every other request like
/// [`Host::request`]. It drops notifications in both directions: the host handles those of the
/// server. Several requests may be in flight. [`close`](Transport::close) cancels them and does not
/// end the session of the host.
pub struct ServerTransport {
    host: Host,
    server: ServerName,
    responses: mpsc::Sender<Json>,
    inbox: Mutex<mpsc::Receiver<Json>>,
    /// Cancels the requests that were sent since the last `connect`.
    session: std::sync::Mutex<CancellationToken>,
    is_open: AtomicBool,
}

impl std::fmt::Debug for ServerTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTransport")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl ServerTransport {
    fn session(&self) -> CancellationToken {
        switchboard_wire::sync::lock(&self.session).clone()
    }
}

impl Transport for ServerTransport {
    /// Waits until the host is connected to the server.
    fn connect(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            let state = self.host.state();
            let server = state.query_server(self.server.as_str());
            let server = server.map_err(io::Error::other)?;
            let session = state.query_session(&server).await;
            session.map_err(io::Error::other)?;
            *switchboard_wire::sync::lock(&self.session) = CancellationToken::new();
            self.is_open.store(true, Ordering::Relaxed);
            Ok(())
        })
    }

    fn send(&self, message: Json) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            if !self.is_connected() {
                return Err(io::ErrorKind::NotConnected.into());
            }
            let message: Value = message.to_value().map_err(io::Error::other)?;
            let method = message.get("method").and_then(Value::as_str);
            let (Some(id), Some(method)) = (message.get("id"), method) else {
                return Ok(());
            };
            let request = RawRequest {
                host: self.host.clone(),
                server: self.server.clone(),
                id: id.clone(),
                method: method.to_owned(),
                params: message.get("params").cloned().unwrap_or_default(),
            };
            let (responses, session) = (self.responses.clone(), self.session());
            self.host.state().tasks.spawn(async move {
                let respond = async {
                    let response = request.run().await;
                    // Fails if the transport was dropped.
                    let _ = responses.send(Json::from(&response)).await;
                };
                session.run_until_cancelled(respond).await;
            });
            Ok(())
        })
    }

    fn receive(&self) -> BoxFuture<'_, io::Result<Option<Json>>> {
        Box::pin(async {
            let session = self.session();
            let mut inbox = self.inbox.lock().await;
            let received = session.run_until_cancelled(inbox.recv()).await;
            Ok(received.flatten())
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.is_open.store(false, Ordering::Relaxed);
            self.session().cancel();
            // Responses to requests of this session must not reach the next one.
            let mut inbox = self.inbox.lock().await;
            while inbox.try_recv().is_ok() {}
        })
    }

    fn is_connected(&self) -> bool {
        let server = self.host.state().server(&self.server);
        self.is_open.load(Ordering::Relaxed)
            && server.is_some_and(|server| server.session().is_some())
    }
}

/// A request that another program part sent over a [`ServerTransport`].
struct RawRequest {
    host: Host,
    server: ServerName,
    id: Value,
    method: String,
    params: Value,
}

impl RawRequest {
    /// Executes the request and returns the response message.
    async fn run(self) -> Value {
        let outcome = match self.method.as_str() {
            "initialize" => self.initialize(),
            "ping" => Ok(json!({})),
            "tools/call" => self.call_tool().await,
            "tools/list" if self.is_in_process() => Ok(self.list_tools()),
            _ => self.pass_on().await,
        };
        let id = self.id;
        match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        }
    }

    fn session(&self) -> Option<Session> {
        let server = self.host.state().server(&self.server)?;
        server.session()
    }

    fn is_in_process(&self) -> bool {
        matches!(self.session(), Some(Session::Local(_)))
    }

    fn initialize(&self) -> Result<Value, Value> {
        let session = self.session();
        let Some(hello) = session.as_ref().and_then(|session| session.handshake()) else {
            return Err(host_error("the server is not connected", None));
        };
        // Modern versions have no `initialize`.
        let version = match hello.version.era() {
            Era::Legacy => hello.version,
            Era::Modern => ProtocolVersion::LATEST_LEGACY,
        };
        let capabilities = match &hello.capabilities.raw {
            Some(raw) => json!(raw),
            None => json!({"tools": {}}),
        };
        Ok(json!({
            "protocolVersion": version.as_str(),
            "capabilities": capabilities,
            "serverInfo": hello.server_info,
            "instructions": hello.instructions,
        }))
    }

    /// The tools of an in-process server, which answers no raw requests.
    fn list_tools(&self) -> Value {
        let catalog = self.host.catalog();
        let tools = catalog.tools_of(&self.server);
        let tools: Vec<_> = tools.map(|tool| json!(&*tool.definition)).collect();
        json!({"tools": tools})
    }

    async fn call_tool(&self) -> Result<Value, Value> {
        let name = self.params.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let id = ToolId::new(self.server.clone(), name);
        let catalog = self.host.catalog();
        let Some(tool) = catalog.tools().iter().find(|tool| tool.id == id) else {
            let message = format!("server {} has no tool {name:?}", self.server);
            return Err(error_value(&ErrorObject::new(
                ErrorObject::INVALID_PARAMS,
                message,
            )));
        };
        let arguments = self.params.get("arguments").unwrap_or(&Value::Null);
        match self.host.call(tool.wire_name.as_str(), arguments).await {
            Ok(output) => Ok(call_result(output)),
            Err(CallError::ErrorResponse { error, .. }) => Err(error_value(&error)),
            Err(error) => Err(host_error(&error.to_string(), Some(error.delivery()))),
        }
    }

    async fn pass_on(&self) -> Result<Value, Value> {
        let params = match &self.params {
            Value::Object(params) => params.clone(),
            _ => Map::new(),
        };
        let request = self
            .host
            .request(self.server.as_str(), &self.method, params);
        match request.await {
            Ok(result) => result
                .to_value()
                .map_err(|error| host_error(&error.to_string(), Some(Delivery::Answered))),
            Err(QueryError::ErrorResponse { error, .. }) => Err(error_value(&error)),
            Err(error) => Err(host_error(&error.to_string(), None)),
        }
    }
}

/// The result of a call as the result of `tools/call`.
fn call_result(output: Output) -> Value {
    let content = output.blocks.into_iter().map(|block| match block {
        // A link is passed on as the server sent it.
        Block::ResourceLink { link, .. } => json!(ContentBlock::ResourceLink(*link)),
        Block::Described { raw: Some(raw), .. } => json!(raw),
        Block::Described { description, .. } => json!({"type": "text", "text": description}),
        block => json!(block),
    });
    let content: Vec<_> = content.collect();
    let result = json!({"content": content, "isError": output.is_error});
    match (result, output.structured) {
        (Value::Object(mut result), Some(structured)) => {
            result.insert("structuredContent".to_owned(), json!(structured));
            Value::Object(result)
        }
        (result, _) => result,
    }
}

fn error_value(error: &ErrorObject) -> Value {
    json!({"code": error.code, "message": error.message, "data": error.data})
}

fn host_error(message: &str, delivery: Option<Delivery>) -> Value {
    let data = delivery.map(|delivery| json!({"delivery": delivery}));
    json!({"code": HOST_ERROR, "message": message, "data": data})
}
