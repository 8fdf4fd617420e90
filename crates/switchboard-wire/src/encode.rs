//! The messages that we send, as lines.
//!
//! Invariant: a line never holds a line end of its own: all text is escaped. Only a server's own
//! state goes back as it came, and a valid string of JSON has no line end in it.

mod json;

use std::time::Duration;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::jsonrpc::RequestId;
use crate::mcp::{
    ClientCapabilities, ErrorObject, Implementation, Json, LogLevel, ProtocolVersion,
    ServerCapabilities,
};

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Notification<'a, P> {
    jsonrpc: &'static str,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

const VERSION: &str = "2.0";

pub fn request(id: u64, method: &str, params: impl Serialize) -> Vec<u8> {
    line(&Request {
        jsonrpc: VERSION,
        id,
        method,
        params,
    })
}

/// `tools/call`, which is most of what is sent: its own keys are not written by way of `serde`.
pub fn call_tool(
    id: u64,
    tool: &str,
    arguments: &Map<String, Value>,
    round: Option<&Round>,
    kept_for: Option<TaskTime>,
    meta: &Meta<'_>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write(&mut text, &id);
    text.extend_from_slice(br#","method":"tools/call","params":{"name":"#);
    json::string(&mut text, tool);
    text.extend_from_slice(br#","arguments":"#);
    json::object(&mut text, arguments);
    if let Some(round) = round {
        round.write(&mut text);
    }
    if let Some(TaskTime { millis }) = kept_for {
        text.extend_from_slice(br#","task":{"ttl":"#);
        write(&mut text, &millis);
        text.push(b'}');
    }
    text.extend_from_slice(br#","_meta":"#);
    meta.write(&mut text);
    text.extend_from_slice(b"}}\n");
    text
}

/// How long a server of 2025-11-25 is asked to keep the task that it makes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTime {
    millis: u64,
}

impl TaskTime {
    pub fn of(time: Duration) -> Self {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { millis }
    }
}

/// Any request with parameters of its own; `_meta` only where there is something in it.
pub fn inquiry(
    id: u64,
    method: &str,
    params: &Map<String, Value>,
    round: Option<&Round>,
    meta: &Meta<'_>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write(&mut text, &id);
    text.extend_from_slice(br#","method":"#);
    json::string(&mut text, method);
    text.extend_from_slice(br#","params":"#);
    json::object(&mut text, params);
    // More members follow the last one of the object.
    text.pop();
    let begin = text.len();
    if let Some(round) = round {
        round.write(&mut text);
    }
    if !meta.is_empty() {
        text.extend_from_slice(br#","_meta":"#);
        meta.write(&mut text);
    }
    if params.is_empty()
        && let Some(comma) = text.get_mut(begin)
    {
        *comma = b' ';
    }
    text.extend_from_slice(b"}}\n");
    text
}

/// What a call carries along that answers a server's questions.
#[derive(Debug)]
pub struct Round {
    /// Counted from 1.
    pub number: usize,
    /// The answers, by the names that the server gave its questions.
    pub responses: Map<String, Value>,
    /// What the server wants to be reminded of: a string as it was written.
    pub state: Option<Json>,
}

impl Round {
    fn write(&self, text: &mut Vec<u8>) {
        if !self.responses.is_empty() {
            text.extend_from_slice(br#","inputResponses":"#);
            json::object(text, &self.responses);
        }
        if let Some(state) = &self.state {
            text.extend_from_slice(br#","requestState":"#);
            text.extend_from_slice(state.as_str().as_bytes());
        }
    }
}

pub fn notification(method: &str, params: Option<impl Serialize>) -> Vec<u8> {
    line(&Notification {
        jsonrpc: VERSION,
        method,
        params,
    })
}

/// Tells the server that nobody waits for this answer any more.
pub fn cancelled(request: u64, reason: &str) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: u64,
        reason: &'a str,
    }
    notification(
        "notifications/cancelled",
        Some(Params {
            request_id: request,
            reason,
        }),
    )
}

/// Answers a request of the server. Its id goes back as the very text that came.
pub fn answer(id: &RequestId, outcome: Result<&Value, &ErrorObject>) -> Vec<u8> {
    let mut text = format!(r#"{{"jsonrpc":"{VERSION}","id":{},"#, id.as_json()).into_bytes();
    match outcome {
        Ok(result) => {
            text.extend_from_slice(b"\"result\":");
            text.extend_from_slice(result.to_string().as_bytes());
        }
        Err(error) => {
            text.extend_from_slice(b"\"error\":");
            // An error object always has a text; `null` would be one too many surprises.
            text.extend_from_slice(&serde_json::to_vec(error).unwrap_or_else(|_| b"{}".to_vec()));
        }
    }
    text.extend_from_slice(b"}\n");
    text
}

/// The parameters of `subscriptions/listen`.
#[derive(Debug, Serialize)]
pub struct Listen<'a, I> {
    pub notifications: I,
    #[serde(rename = "_meta")]
    pub meta: Meta<'a>,
}

/// What one wants to be told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interests {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resources_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompts_list_changed: bool,
}

impl Interests {
    /// All changes that a server with these capabilities tells of.
    pub fn in_what(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools_list_changed: capabilities.tools_list_changed,
            resources_list_changed: capabilities.resources_list_changed,
            prompts_list_changed: capabilities.prompts_list_changed,
        }
    }

    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// The resources that one wants to be told of.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Updates<'a> {
    pub resource_subscriptions: &'a [&'a str],
}

/// The parameters of a request that has none of its own.
#[derive(Debug, Serialize)]
pub struct OnlyMeta<'a> {
    #[serde(rename = "_meta")]
    pub meta: Meta<'a>,
}

/// What every request carries along.
#[derive(Debug)]
pub struct Meta<'a> {
    token: Option<u64>,
    traceparent: Option<&'a str>,
    described: Option<SelfDescription<'a>>,
}

/// How a request describes itself in the modern era.
#[derive(Debug)]
struct SelfDescription<'a> {
    version: ProtocolVersion,
    client: &'a Implementation,
    capabilities: Capabilities,
    log_level: Option<LogLevel>,
}

/// What a server may ask for, or do instead, in answer to a request.
#[derive(Debug, Serialize)]
struct Capabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    elicitation: Option<Elicitation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Sampling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roots: Option<Roots>,
    /// There are none in the legacy era.
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Extensions>,
}

#[derive(Debug, Serialize)]
struct Elicitation {
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<Plain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<Plain>,
}

#[derive(Debug, Serialize)]
struct Sampling {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Plain>,
}

/// The extensions of the protocol that work here.
#[derive(Debug, Default, Serialize)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks")]
    tasks: Plain,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Roots {
    /// Whether changes are announced; there is no such thing in the modern era.
    #[serde(skip_serializing_if = "Option::is_none")]
    list_changed: Option<bool>,
}

/// Offered, without anything more to say about it.
#[derive(Debug, Default, Serialize)]
struct Plain {}

impl From<ClientCapabilities> for Capabilities {
    fn from(offers: ClientCapabilities) -> Self {
        Self {
            elicitation: (offers.elicitation || offers.elicitation_url).then(|| Elicitation {
                form: offers.elicitation.then(Plain::default),
                url: offers.elicitation_url.then(Plain::default),
            }),
            sampling: offers.sampling.then(|| Sampling {
                tools: offers.sampling_tools.then(Plain::default),
            }),
            roots: offers.roots.then(Roots::default),
            extensions: Some(Extensions::default()),
        }
    }
}

impl<'a> Meta<'a> {
    /// `modern` is the version to describe the request with, in the era that asks for it.
    pub fn new(
        modern: Option<ProtocolVersion>,
        client: &'a Implementation,
        offers: ClientCapabilities,
        token: Option<u64>,
        traceparent: Option<&'a str>,
    ) -> Self {
        let described = modern.map(|version| SelfDescription {
            version,
            client,
            capabilities: offers.into(),
            log_level: None,
        });
        Self {
            token,
            traceparent,
            described,
        }
    }

    /// Asks for what the server logs meanwhile, from this level on, in the era that asks for it so.
    pub fn log_level(mut self, level: Option<LogLevel>) -> Self {
        if let Some(described) = &mut self.described {
            described.log_level = level;
        }
        self
    }

    /// It goes with every call, so its own keys are not written by way of `serde`.
    fn write(&self, text: &mut Vec<u8>) {
        let begin = text.len();
        if let Some(token) = &self.token {
            text.extend_from_slice(br#","progressToken":"#);
            write(text, token);
        }
        if let Some(traceparent) = self.traceparent {
            text.extend_from_slice(br#","traceparent":"#);
            json::string(text, traceparent);
        }
        if let Some(described) = &self.described {
            text.extend_from_slice(br#","io.modelcontextprotocol/protocolVersion":"#);
            json::string(text, described.version.as_str());
            text.extend_from_slice(br#","io.modelcontextprotocol/clientInfo":"#);
            write(text, described.client);
            text.extend_from_slice(br#","io.modelcontextprotocol/clientCapabilities":"#);
            write(text, &described.capabilities);
            if let Some(level) = described.log_level {
                text.extend_from_slice(br#","io.modelcontextprotocol/logLevel":"#);
                json::string(text, level.as_str());
            }
        }
        match text.get_mut(begin) {
            Some(comma) => *comma = b'{',
            None => text.push(b'{'),
        }
        text.push(b'}');
    }

    fn is_empty(&self) -> bool {
        self.token.is_none() && self.traceparent.is_none() && self.described.is_none()
    }
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = Vec::new();
        self.write(&mut text);
        let json: &RawValue = serde_json::from_slice(&text).map_err(S::Error::custom)?;
        json.serialize(serializer)
    }
}

/// The parameters of `initialize`.
pub fn initialize(
    version: ProtocolVersion,
    offers: ClientCapabilities,
    client: &Implementation,
) -> Value {
    let mut capabilities = Capabilities {
        extensions: None,
        ..offers.into()
    };
    // Those who know forms only, and nothing of kinds of questions, are told so in their own way.
    if !offers.elicitation_url
        && let Some(elicitation) = &mut capabilities.elicitation
    {
        elicitation.form = None;
    }
    if let Some(roots) = &mut capabilities.roots {
        roots.list_changed = Some(true);
    }
    json!({
        "protocolVersion": version.as_str(),
        "capabilities": capabilities,
        "clientInfo": client,
    })
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    write(&mut text, message);
    text.push(b'\n');
    text
}

pub(super) fn write(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = text.len();
    // Maps with string keys and plain structs cannot fail to be written into memory.
    if serde_json::to_writer(&mut *text, value).is_err() {
        text.truncate(start);
        text.extend_from_slice(b"null");
    }
}
