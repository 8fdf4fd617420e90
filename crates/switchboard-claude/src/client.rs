//! A session with the CLI over several turns.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use serde_json::{Map, Value, json};
use switchboard::Instance;
use switchboard::mcp::Json;

use crate::connect::{Ends, connect};
use crate::control::Control;
use crate::error::Error;
use crate::lenient;
use crate::message::Message;
use crate::options::{Options, PermissionMode};
use crate::query::Prompt;
use crate::servers::{
    McpServerConfig, McpServerStatus, McpSetServersResult, check_names, millis, statuses,
};

/// The name of the one session, towards the CLI.
const SESSION: &str = "default";
/// How much longer than a call itself the CLI may take to tell of it.
const GRACE: Duration = Duration::from_secs(5);

/// A session with the CLI. Dropped, the CLI is killed with all that it started; [`Client::close`] lets
/// it leave in good order.
///
/// All methods take `&self`: while one task reads messages, another may interrupt. What the CLI asks
/// (tools, permissions, hooks) is answered whether messages are read or not. They are kept until then,
/// up to 256 MiB; beyond that the CLI is ended with an error.
///
/// ```no_run
/// use switchboard_claude::{Client, Options};
///
/// # async fn example() -> Result<(), switchboard_claude::Error> {
/// let client = Client::connect(Options::new()).await?;
/// for question in ["What is 15 + 27?", "And twice that?"] {
///     client.send(question).await?;
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
    info: Value,
    time_for_calls: Duration,
    /// The servers of this program that were there from the beginning. They stay.
    lasting: Vec<(String, McpServerConfig)>,
    /// All servers of this program that the CLI has.
    present: Mutex<Vec<(String, Instance)>>,
    /// Held while they are exchanged.
    exchange: tokio::sync::Mutex<()>,
}

impl Client {
    /// Starts the CLI and waits until it is ready.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let connected = connect(&options, Ends::WhenClosed).await?;
        let info = connected.answer.map(|answer| answer.to_value());
        let servers = options.servers().iter();
        let lasting = servers.filter(|(_, config)| config.instance().is_some());
        Ok(Self {
            control: connected.control,
            info: info.and_then(Result::ok).unwrap_or_default(),
            time_for_calls: options.time_for_calls(),
            lasting: lasting.cloned().collect(),
            present: Mutex::new(options.sdk_servers()),
            exchange: tokio::sync::Mutex::default(),
        })
    }

    /// What the CLI said of itself when it started: commands, models, agents, its version. Which
    /// members there are depends on that version.
    pub fn server_info(&self) -> &Value {
        &self.info
    }

    /// Says something to the model. What comes of it is read with [`Client::receive_response`].
    pub async fn send(&self, prompt: impl Into<Prompt>) -> Result<(), Error> {
        let prompt = prompt.into();
        self.control.say(prompt.content()?, SESSION).await
    }

    /// The next message, whichever turn it belongs to; `None` when the CLI has left.
    pub async fn receive(&self) -> Option<Result<Message, Error>> {
        self.control.next().await
    }

    /// All messages, until the CLI has left.
    pub fn messages(&self) -> Messages<'_> {
        let all = stream::unfold(self, async |client| Some((client.receive().await?, client)));
        Messages(all.boxed())
    }

    /// The messages of one turn, its result included.
    pub fn receive_response(&self) -> Messages<'_> {
        let turn = stream::unfold(Some(self), async |client| {
            let client = client?;
            let message = client.receive().await?;
            let is_last = matches!(message, Err(_) | Ok(Message::Result(_)));
            Some((message, (!is_last).then_some(client)))
        });
        Messages(turn.boxed())
    }

    /// Closes the CLI's input, waits until it has left, and makes it leave if it does not. Messages that
    /// it said until then can still be read.
    pub async fn close(&self) {
        self.control.close().await;
    }
}

/// What can be asked of the CLI.
impl Client {
    /// Asks the CLI for anything that has no method here: the payload of its answer, or `null`.
    pub async fn request(&self, subtype: &str, fields: Map<String, Value>) -> Result<Value, Error> {
        read(subtype, self.control.request(subtype, fields).await?)
    }

    /// Interrupts what the model is doing. The turn ends with a result that says so.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.order("interrupt", []).await
    }

    /// Changes which questions about tools are asked.
    pub async fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), Error> {
        let fields = [("mode", json!(mode.as_str()))];
        self.order("set_permission_mode", fields).await
    }

    /// Changes the model; `None` is the CLI's own choice.
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), Error> {
        self.order("set_model", [("model", json!(model))]).await
    }

    async fn order<const N: usize>(
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

/// MCP servers.
impl Client {
    /// The servers that the CLI has, and how they are.
    pub async fn mcp_status(&self) -> Result<Vec<McpServerStatus>, Error> {
        let answer = self.request("mcp_status", Map::new()).await?;
        Ok(statuses(&answer))
    }

    /// Connects a server anew.
    pub async fn mcp_reconnect(&self, server: &str) -> Result<(), Error> {
        if self
            .control
            .servers()
            .names()
            .iter()
            .any(|name| name == server)
        {
            // The CLI connects a server of this program anew only when it is switched on.
            self.mcp_toggle(server, false).await?;
            return self.mcp_toggle(server, true).await;
        }
        let fields = [("serverName", json!(server))];
        self.order("mcp_reconnect", fields).await
    }

    /// Switches a server on or off.
    pub async fn mcp_toggle(&self, server: &str, enabled: bool) -> Result<(), Error> {
        let fields = [("serverName", json!(server)), ("enabled", json!(enabled))];
        self.order("mcp_toggle", fields).await
    }

    /// Replaces the servers that were added in this way before. Those of the options stay, unless one
    /// here has the same name.
    pub async fn mcp_set_servers(
        &self,
        servers: impl IntoIterator<Item = (String, McpServerConfig)>,
    ) -> Result<McpSetServersResult, Error> {
        const REQUEST: &str = "mcp_set_servers";
        let mut wanted = self.lasting.clone();
        for (name, config) in servers {
            wanted.retain(|(known, _)| *known != name);
            wanted.push((name, config));
        }
        let names = wanted.iter().map(|(name, _)| name.as_str());
        check_names(names).map_err(Error::Unusable)?;
        let declared = wanted.iter();
        let declared = declared.map(|(name, config)| {
            let config = config.patient(self.time_for_calls);
            (name.clone(), config.declared(name))
        });
        let fields = object([("servers", Value::Object(declared.collect()))]);
        let of_ours = |(name, config): &(String, McpServerConfig)| {
            Some((name.clone(), config.instance()?.clone()))
        };
        let instances: Vec<_> = wanted.iter().filter_map(of_ours).collect();

        // One at a time: each would take away what another has just brought.
        let _turn = self.exchange.lock().await;
        // The CLI may speak to the new ones before it answers, and to the old ones until then.
        let before = self.present();
        self.control.servers().replace(united(&instances, &before));
        let answer = self.control.request(REQUEST, fields).await;
        if answer.is_err() {
            self.set_present(before);
        } else {
            self.exchange_namesakes(&before, instances).await?;
        }
        let answer = read(REQUEST, answer?)?;
        serde_json::from_value(answer).map_err(|error| unreadable(REQUEST, &error))
    }

    /// Calls a tool of one of the CLI's servers (`mcp__server__tool`) without the model: its result as
    /// the protocol has it. Servers of this program are not called so.
    pub async fn mcp_call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Error> {
        const REQUEST: &str = "mcp_call";
        let limit = self.time_for_calls;
        let fields = object([
            ("tool", json!(tool)),
            ("arguments", Value::Object(arguments)),
            ("timeout_ms", json!(millis(limit))),
        ]);
        let limit = limit.saturating_add(GRACE);
        let answer = self
            .control
            .request_within(limit, "call_timeout", REQUEST, fields);
        read(REQUEST, answer.await?)
    }

    /// Reads a resource of one of the CLI's servers. The CLI does so for addresses of user interfaces
    /// (`ui://…`) only, and not of servers of this program.
    pub async fn mcp_read_resource(&self, server: &str, uri: &str) -> Result<Value, Error> {
        let fields = object([("serverName", json!(server)), ("uri", json!(uri))]);
        self.request("mcp_read_resource", fields).await
    }

    /// Goes over to new servers. The CLI takes one of the same name for the one that it knows, and says
    /// hello to it only when it is switched off and on.
    async fn exchange_namesakes(
        &self,
        before: &[(String, Instance)],
        after: Vec<(String, Instance)>,
    ) -> Result<(), Error> {
        let is_exchanged = |(name, new): &&(String, Instance)| {
            let namesake = before.iter().find(|(known, _)| known == name);
            namesake.is_some_and(|(_, old)| !old.is_same(new))
        };
        let exchanged = after.iter().filter(is_exchanged);
        let exchanged: Vec<_> = exchanged.map(|(name, _)| name.clone()).collect();
        let mut outcome = Ok(());
        for name in &exchanged {
            outcome = outcome.and(self.mcp_toggle(name, false).await);
        }
        self.set_present(after);
        for name in &exchanged {
            outcome = outcome.and(self.mcp_toggle(name, true).await);
        }
        outcome
    }

    fn set_present(&self, servers: Vec<(String, Instance)>) {
        self.control.servers().replace(servers.clone());
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    fn present(&self) -> Vec<(String, Instance)> {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.clone()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

/// Messages of a session, as a stream. Dropped, it leaves the rest of them to whoever reads next.
pub struct Messages<'a>(BoxStream<'a, Result<Message, Error>>);

impl Messages<'_> {
    /// The next message; `None` when there are no more.
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

/// Those of `new`, and of `old` those that have no namesake there.
fn united(old: &[(String, Instance)], new: &[(String, Instance)]) -> Vec<(String, Instance)> {
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

fn read(request: &str, answer: Option<Json>) -> Result<Value, Error> {
    let answer = answer
        .map(|answer| lenient::outline(answer.as_str()))
        .transpose();
    let answer = answer.map_err(|error| unreadable(request, &error))?;
    Ok(answer.unwrap_or_default())
}

fn unreadable(request: &str, error: &serde_json::Error) -> Error {
    Error::Unreadable {
        request: request.to_owned(),
        why: error.to_string(),
    }
}
