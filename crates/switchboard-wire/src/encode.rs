//! Encodes the messages that the client sends, each as one line.
//!
//! `tools/call` and queries are written without serde where that is faster. Sending is up to the
//! session.
//!
//! Invariant: a line contains no line break except its last byte. All text is escaped. Only a
//! server's `requestState` and the ids of its requests are sent back as received: each is a valid
//! JSON string or integer.

mod json;
mod request_meta;

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

pub use request_meta::RequestMeta;

use self::request_meta::RawCapabilities;
use crate::jsonrpc::RequestId;
use crate::mcp::{
    ClientCapabilities, ErrorObject, Implementation, Json, ProtocolVersion, ServerCapabilities,
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

const JSONRPC_VERSION: &str = "2.0";

/// Initial capacity of the buffer for a request line, in bytes. Most requests fit without growing
/// it.
const REQUEST_CAPACITY: usize = 512;

/// Encodes a request.
pub fn request(id: u64, method: &str, params: impl Serialize) -> Vec<u8> {
    line(&Request {
        jsonrpc: JSONRPC_VERSION,
        id,
        method,
        params,
    })
}

/// Encodes `tools/call`.
pub fn call_tool(
    id: u64,
    tool: &str,
    arguments: &Map<String, Value>,
    input: Option<&InputResponses>,
    task: Option<TaskTtl>,
    meta: &RequestMeta<'_>,
) -> Vec<u8> {
    let mut line = Vec::with_capacity(REQUEST_CAPACITY);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_serialized(&mut line, &id);
    line.extend_from_slice(br#","method":"tools/call","params":{"name":"#);
    json::write_string(&mut line, tool);
    line.extend_from_slice(br#","arguments":"#);
    json::write_object(&mut line, arguments);
    if let Some(input) = input {
        input.write(&mut line);
    }
    if let Some(TaskTtl { millis }) = task {
        line.extend_from_slice(br#","task":{"ttl":"#);
        write_serialized(&mut line, &millis);
        line.push(b'}');
    }
    line.extend_from_slice(br#","_meta":"#);
    meta.write(&mut line);
    line.extend_from_slice(b"}}\n");
    line
}

/// How long a 2025-11-25 server is asked to keep the task that it creates for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTtl {
    millis: u64,
}

impl TaskTtl {
    pub fn new(ttl: Duration) -> Self {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Self { millis }
    }
}

/// Encodes a request of any method whose params are an object. `_meta` is omitted if it is empty.
pub fn query(
    id: u64,
    method: &str,
    params: &Map<String, Value>,
    input: Option<&InputResponses>,
    meta: &RequestMeta<'_>,
) -> Vec<u8> {
    let mut line = Vec::with_capacity(REQUEST_CAPACITY);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_serialized(&mut line, &id);
    line.extend_from_slice(br#","method":"#);
    json::write_string(&mut line, method);
    line.extend_from_slice(br#","params":"#);
    json::write_object(&mut line, params);
    // Remove the closing brace: more members may follow.
    line.pop();
    let added_members = line.len();
    if let Some(input) = input {
        input.write(&mut line);
    }
    if !meta.is_empty() {
        line.extend_from_slice(br#","_meta":"#);
        meta.write(&mut line);
    }
    // Each added member starts with a comma, which is wrong for the first member of an object.
    if params.is_empty()
        && let Some(comma) = line.get_mut(added_members)
    {
        *comma = b' ';
    }
    line.extend_from_slice(b"}}\n");
    line
}

/// The members of a repeated request that respond to an `input_required` result.
#[derive(Debug)]
pub struct InputResponses {
    /// How many `input_required` results the request had so far, this one included.
    pub number: usize,
    /// The responses, by the keys of the server.
    pub responses: Map<String, Value>,
    /// The server's opaque state: the JSON text of a string.
    pub state: Option<Json>,
}

impl InputResponses {
    fn write(&self, line: &mut Vec<u8>) {
        if !self.responses.is_empty() {
            line.extend_from_slice(br#","inputResponses":"#);
            json::write_object(line, &self.responses);
        }
        if let Some(state) = &self.state {
            line.extend_from_slice(br#","requestState":"#);
            line.extend_from_slice(state.as_str().as_bytes());
        }
    }
}

/// Encodes a notification.
pub fn notification(method: &str, params: Option<impl Serialize>) -> Vec<u8> {
    line(&Notification {
        jsonrpc: JSONRPC_VERSION,
        method,
        params,
    })
}

/// Encodes the notification that the client cancelled one of its requests.
pub fn cancelled(request_id: u64, reason: &str) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: u64,
        reason: &'a str,
    }
    notification(
        "notifications/cancelled",
        Some(Params { request_id, reason }),
    )
}

/// Encodes the response to a request of the server.
pub fn response(id: &RequestId, outcome: Result<&Value, &ErrorObject>) -> Vec<u8> {
    let id = id.as_json();
    let mut line = format!(r#"{{"jsonrpc":"{JSONRPC_VERSION}","id":{id},"#).into_bytes();
    match outcome {
        Ok(result) => {
            line.extend_from_slice(b"\"result\":");
            line.extend_from_slice(result.to_string().as_bytes());
        }
        Err(error) => {
            line.extend_from_slice(b"\"error\":");
            // `{}` instead of `null`: a response with neither result nor error would be invalid.
            let error = serde_json::to_vec(error).unwrap_or_else(|_| b"{}".to_vec());
            // `data` is raw JSON and may have line breaks between its tokens. They would end the
            // line.
            let is_line_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
            line.extend(
                error
                    .iter()
                    .map(|byte| if is_line_break(byte) { b' ' } else { *byte }),
            );
        }
    }
    line.extend_from_slice(b"}\n");
    line
}

/// The params of `subscriptions/listen`. `F` is a [`ListChangeFilter`] or a [`ResourceFilter`].
#[derive(Debug, Serialize)]
pub struct ListenParams<'a, F> {
    pub notifications: F,
    #[serde(rename = "_meta")]
    pub meta: RequestMeta<'a>,
}

/// Which list changes a `subscriptions/listen` request subscribes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListChangeFilter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resources_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompts_list_changed: bool,
}

impl ListChangeFilter {
    /// All list changes that a server with these capabilities sends.
    pub fn supported_by(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools_list_changed: capabilities.tools_list_changed,
            resources_list_changed: capabilities.resources_list_changed,
            prompts_list_changed: capabilities.prompts_list_changed,
        }
    }

    /// Whether no list is selected.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Which resources a `subscriptions/listen` request subscribes to, by URI.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFilter<'a> {
    pub resource_subscriptions: &'a [&'a str],
}

/// The params of a request that has none but `_meta`.
#[derive(Debug, Serialize)]
pub struct MetaParams<'a> {
    #[serde(rename = "_meta")]
    pub meta: RequestMeta<'a>,
}

/// Returns the params of `initialize`.
pub fn initialize(
    version: ProtocolVersion,
    capabilities: ClientCapabilities,
    client: &Implementation,
) -> Value {
    json!({
        "protocolVersion": version.as_str(),
        "capabilities": RawCapabilities::legacy(capabilities),
        "clientInfo": client,
    })
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(256);
    write_serialized(&mut line, message);
    line.push(b'\n');
    line
}

/// Appends a value as serde writes it. `null` if the value cannot be serialized, which does not
/// occur for maps with string keys and plain structs.
fn write_serialized(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}
