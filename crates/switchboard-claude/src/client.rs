//! A session of several turns with the CLI.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use serde_json::{Map, Value, json};
use switchboard::in_process::ServerInstance;
use switchboard::mcp::Json;

use crate::control::Control;
use crate::error::Error;
use crate::lenient_json;
use crate::message::Message;
use crate::options::{Options, PermissionMode};
use crate::query::Prompt;
use crate::servers::{
    McpServerConfig, McpServerStatus, McpSetServersResult, check_names, millis, parse_statuses,
};
use crate::start_cli::{StdinClosing, start_and_initialize};

/// The session id that each prompt carries. It is constant, because a CLI process has only one
/// session.
const SESSION: &str = "default";
/// How long this crate still waits for the CLI's response after the timeout of a tool call has
/// expired. The timeout error of the CLI then arrives first.
const RESPONSE_MARGIN: Duration = Duration::from_secs(5);

/// A session with the CLI. Dropping it kills the CLI and all processes that it started;
/// [`Client::close`] shuts the CLI down gracefully.
///
/// All methods take `&self`, so one task can interrupt the model while another task reads messages.
/// Requests of the CLI (tools, permissions, hooks) are answered even while no messages are read. Up
/// to 256 MiB of unread messages are queued, or [`Options::max_buffer_size`] if that is larger. If
/// another message does not fit into the queue, the session ends with an error.
///
/// ```no_run
/// use switchboard_claude::{Client, Options};
///
/// # async fn example() -> Result<(), switchboard_claude::Error> {
/// let client = Client::connect(Options::new()).await?;
/// for prompt in ["What is 15 + 27?", "And twice that?"] {
///     client.send(prompt).await?;
///     let mut response = client.receive_response();
///     while let Some(message) = response.next().await {
///         if let Some(text) = message?.text() {
///             println!("{text}");
///         }
///     }
/// }
/// client.close().await;
/// # Ok(())
/// # }
/// ```
pub struct Client {
    control: Control,
    server_info: Value,
    call_timeout: Duration,
    /// The in-process servers of the options. [`Client::mcp_set_servers`] keeps each of them,
    /// unless the caller passes a server with the same name.
    initial_servers: Vec<(String, McpServerConfig)>,
    /// All in-process servers that the CLI can use at present.
    current_servers: Mutex<Vec<(String, ServerInstance)>>,
    /// Serializes calls of [`Client::mcp_set_servers`].
    replace_lock: tokio::sync::Mutex<()>,
}

impl Client {
    /// Starts the CLI and waits for its response to `initialize`.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let connected = start_and_initialize(&options, StdinClosing::OnClose).await?;
        let server_info = connected.server_info.map(|info| info.to_value());
        let servers = options.servers.iter();
        let in_process = servers.filter(|(_, config)| config.instance().is_some());
        Ok(Self {
            control: connected.control,
            server_info: server_info.and_then(Result::ok).unwrap_or_default(),
            call_timeout: options.call_timeout,
            initial_servers: in_process.cloned().collect(),
            current_servers: Mutex::new(options.in_process_servers()),
            replace_lock: tokio::sync::Mutex::default(),
        })
    }

    /// The CLI's response to `initialize`: commands, models, agents, version. Which members it has
    /// depends on the version of the CLI.
    pub fn server_info(&self) -> &Value {
        &self.server_info
    }

    /// Sends a prompt to the model. Read the response with [`Client::receive_response`].
    pub async fn send(&self, prompt: impl Into<Prompt>) -> Result<(), Error> {
        let prompt = prompt.into();
        self.control.send_prompt(prompt.content()?, SESSION).await
    }

    /// Returns the next message of the session, whichever turn it belongs to. If the connection to
    /// the CLI was lost, returns the error once after the last message. Then returns `None`.
    pub async fn receive(&self) -> Option<Result<Message, Error>> {
        self.control.next_message().await
    }

    /// Returns a stream of all messages until the CLI exits.
    pub fn messages(&self) -> Messages<'_> {
        let all = stream::unfold(self, async |client| Some((client.receive().await?, client)));
        Messages(all.boxed())
    }

    /// Returns a stream that ends after the next result message (the last message of a turn) or
    /// after an error.
    pub fn receive_response(&self) -> Messages<'_> {
        let turn = stream::unfold(Some(self), async |client| {
            let client = client?;
            let message = client.receive().await?;
            let is_last = matches!(message, Err(_) | Ok(Message::Result(_)));
            Some((message, (!is_last).then_some(client)))
        });
        Messages(turn.boxed())
    }

    /// Closes the input of the CLI and waits for its exit. If the CLI does not exit within five
    /// seconds, it gets SIGTERM, and after another five seconds it is killed. Messages that the CLI
    /// sent before it exited can still be read.
    pub async fn close(&self) {
        self.control.close().await;
    }
}

/// Methods that send a control request to the CLI.
impl Client {
    /// Sends a control request for which this crate has no method. Returns the payload of the
    /// response, or `null` if it has none.
    pub async fn request(&self, subtype: &str, fields: Map<String, Value>) -> Result<Value, Error> {
        parse_response(subtype, self.control.request(subtype, fields).await?)
    }

    /// Interrupts the model. The current turn then ends with a result message that reports the
    /// interruption.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.send_command("interrupt", []).await
    }

    /// Changes the permission mode of the session.
    pub async fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), Error> {
        let fields = [("mode", json!(mode.as_str()))];
        self.send_command("set_permission_mode", fields).await
    }

    /// Changes the model for the following turns; `None` selects the CLI's default.
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), Error> {
        self.send_command("set_model", [("model", json!(model))])
            .await
    }

    async fn send_command<const N: usize>(
        &self,
        subtype: &str,
        fields: [(&str, Value); N],
    ) -> Result<(), Error> {
        self.control
            .request(subtype, object(fields))
            .await
            .map(drop)
    }
}

/// Methods for the MCP servers of the session.
impl Client {
    /// Returns all MCP servers that the CLI knows, with their status.
    pub async fn mcp_status(&self) -> Result<Vec<McpServerStatus>, Error> {
        let response = self.request("mcp_status", Map::new()).await?;
        Ok(parse_statuses(&response))
    }

    /// Makes the CLI disconnect from a server and connect again.
    pub async fn mcp_reconnect(&self, server: &str) -> Result<(), Error> {
        if self
            .control
            .servers()
            .names()
            .iter()
            .any(|name| name == server)
        {
            // `mcp_reconnect` does not reconnect an in-process server. Disabling and enabling it
            // does.
            self.mcp_toggle(server, false).await?;
            return self.mcp_toggle(server, true).await;
        }
        let fields = [("serverName", json!(server))];
        self.send_command("mcp_reconnect", fields).await
    }

    /// Enables or disables a server for this session.
    pub async fn mcp_toggle(&self, server: &str, enabled: bool) -> Result<(), Error> {
        let fields = [("serverName", json!(server)), ("enabled", json!(enabled))];
        self.send_command("mcp_toggle", fields).await
    }

    /// Sets the additional servers of the session. Servers from an earlier call of this method are
    /// removed unless `servers` contains them. Servers of the options stay, unless `servers`
    /// contains one with the same name.
    pub async fn mcp_set_servers(
        &self,
        servers: impl IntoIterator<Item = (String, McpServerConfig)>,
    ) -> Result<McpSetServersResult, Error> {
        const REQUEST: &str = "mcp_set_servers";
        let mut new_servers = self.initial_servers.clone();
        for (name, config) in servers {
            new_servers.retain(|(known, _)| *known != name);
            new_servers.push((name, config));
        }
        let names = new_servers.iter().map(|(name, _)| name.as_str());
        check_names(names).map_err(Error::InvalidInput)?;
        let entries = new_servers.iter().map(|(name, config)| {
            let config = config.with_default_timeout(self.call_timeout);
            (name.clone(), config.to_json(name))
        });
        let fields = object([("servers", Value::Object(entries.collect()))]);
        let in_process = |(name, config): &(String, McpServerConfig)| {
            Some((name.clone(), config.instance()?.clone()))
        };
        let instances: Vec<_> = new_servers.iter().filter_map(in_process).collect();

        // Without this lock, two concurrent calls would each remove the servers that the other one
        // added.
        let _guard = self.replace_lock.lock().await;
        // Serve both the old and the new servers until the CLI has responded, because it may call
        // either until then. If both contain a server with the same name, the old instance serves.
        let before = self.current_servers();
        self.control.servers().replace(merged(&instances, &before));
        let response = self.control.request(REQUEST, fields).await;
        if response.is_err() {
            self.set_current_servers(before);
        } else {
            self.replace_same_name(&before, instances).await?;
        }
        let response = parse_response(REQUEST, response?)?;
        serde_json::from_value(response).map_err(|error| unexpected_response(REQUEST, &error))
    }

    /// Calls a tool of an external server without involving the model, and returns the MCP result.
    /// `tool` is the full name, `mcp__server__tool`. In-process servers are not supported.
    pub async fn mcp_call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Error> {
        const REQUEST: &str = "mcp_call";
        let limit = self.call_timeout;
        let fields = object([
            ("tool", json!(tool)),
            ("arguments", Value::Object(arguments)),
            ("timeout_ms", json!(millis(limit))),
        ]);
        let limit = limit.saturating_add(RESPONSE_MARGIN);
        let response = self
            .control
            .request_within(limit, "call_timeout", REQUEST, fields);
        parse_response(REQUEST, response.await?)
    }

    /// Reads a resource of an external server. The CLI supports only `ui://` URIs here, and does
    /// not support in-process servers.
    pub async fn mcp_read_resource(&self, server: &str, uri: &str) -> Result<Value, Error> {
        let fields = object([("serverName", json!(server)), ("uri", json!(uri))]);
        self.request("mcp_read_resource", fields).await
    }

    /// Makes `after` the current servers. The CLI does not notice when a server is replaced by
    /// another instance with the same name. Each replaced server is therefore disabled and enabled,
    /// so that the CLI initializes the new instance.
    async fn replace_same_name(
        &self,
        before: &[(String, ServerInstance)],
        after: Vec<(String, ServerInstance)>,
    ) -> Result<(), Error> {
        let is_replaced = |(name, new): &&(String, ServerInstance)| {
            let previous = before.iter().find(|(known, _)| known == name);
            previous.is_some_and(|(_, old)| !old.is_same(new))
        };
        let replaced = after.iter().filter(is_replaced);
        let replaced: Vec<_> = replaced.map(|(name, _)| name.clone()).collect();
        let mut result = Ok(());
        for name in &replaced {
            result = result.and(self.mcp_toggle(name, false).await);
        }
        self.set_current_servers(after);
        for name in &replaced {
            result = result.and(self.mcp_toggle(name, true).await);
        }
        result
    }

    fn set_current_servers(&self, servers: Vec<(String, ServerInstance)>) {
        self.control.servers().replace(servers.clone());
        let current = self.current_servers.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = servers;
    }

    fn current_servers(&self) -> Vec<(String, ServerInstance)> {
        let current = self.current_servers.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

/// A stream of messages of the session. Messages that are unread when the stream is dropped stay in
/// the session and can be read by another stream.
pub struct Messages<'a>(BoxStream<'a, Result<Message, Error>>);

impl Messages<'_> {
    /// Returns the next message; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        self.0.next().await
    }
}

impl Stream for Messages<'_> {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Messages")
    }
}

/// Returns the servers of `old` whose names do not occur in `new`, followed by `new`.
fn merged(
    old: &[(String, ServerInstance)],
    new: &[(String, ServerInstance)],
) -> Vec<(String, ServerInstance)> {
    let is_replaced = |name: &str| new.iter().any(|(known, _)| known == name);
    let kept = old.iter().filter(|(name, _)| !is_replaced(name));
    kept.chain(new).cloned().collect()
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn parse_response(request: &str, response: Option<Json>) -> Result<Value, Error> {
    let response = response
        .map(|response| lenient_json::parse_lossy(response.as_str()))
        .transpose();
    let response = response.map_err(|error| unexpected_response(request, &error))?;
    Ok(response.unwrap_or_default())
}

fn unexpected_response(request: &str, error: &serde_json::Error) -> Error {
    Error::UnexpectedResponse {
        request: request.to_owned(),
        cause: error.to_string(),
    }
}
