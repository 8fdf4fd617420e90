//! Lines as both sides write them.
//!
//! Reading takes one pass and builds no tree: what a frame is about is found, the rest is passed over.
//! Invariant: what is written is one line, whatever text goes into it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::turns::{Sign, State};

/// A line of the CLI's.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    /// It asks something.
    Request {
        id: String,
        request: Option<&'a RawValue>,
    },
    /// It no longer wants what it asked.
    Cancel { id: String },
    /// It answers.
    Answer { id: String, answer: Answer },
    /// It says something by itself, which the user sees unless it is for us alone.
    Message { sign: Sign, is_for_us: bool },
    /// Nothing to do.
    Nothing,
}

/// The answer to a request of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// With a payload or without.
    Success(Option<String>),
    Refusal {
        message: String,
        code: Option<String>,
    },
}

/// The members that matter. Each is kept as it is, so that one of an unexpected type spoils nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Members<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    subtype: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    error_code: Option<&'a RawValue>,
    #[serde(borrow)]
    sdk_host_only: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
    #[serde(borrow)]
    task_id: Option<&'a RawValue>,
    #[serde(borrow)]
    task_type: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    patch: Option<&'a RawValue>,
}

impl<'a> Frame<'a> {
    /// Reads a line. Only what is no object of JSON is an error.
    pub(super) fn read(line: &'a str) -> Result<Self, serde_json::Error> {
        let members: Members<'a> = serde_json::from_str(line)?;
        let id = text(members.request_id).unwrap_or_default();
        let kind = text(members.kind).unwrap_or_default();
        Ok(match kind.as_str() {
            "control_request" => Self::Request {
                id,
                request: members.request,
            },
            "control_cancel_request" => Self::Cancel { id },
            "control_response" => members.response.map_or(Self::Nothing, answer),
            "keep_alive" => Self::Nothing,
            kind => Self::Message {
                sign: sign(kind, &members),
                is_for_us: flag(members.sdk_host_only),
            },
        })
    }
}

fn answer(response: &RawValue) -> Frame<'_> {
    let Ok(members) = serde_json::from_str::<Members<'_>>(response.get()) else {
        return Frame::Nothing;
    };
    let answer = if text(members.subtype).as_deref() == Some("error") {
        Answer::Refusal {
            message: text(members.error).unwrap_or_else(|| "it does not say why".to_owned()),
            code: text(members.error_code),
        }
    } else {
        Answer::Success(members.response.map(|payload| payload.get().to_owned()))
    };
    let id = text(members.request_id).unwrap_or_default();
    Frame::Answer { id, answer }
}

/// What a message says about the turn.
fn sign(kind: &str, members: &Members<'_>) -> Sign {
    if kind == "result" {
        let is_error = flag(members.is_error);
        return Sign::Result { is_error };
    }
    let subtype = text(members.subtype);
    let (Some(subtype), "system") = (subtype, kind) else {
        return Sign::Other;
    };
    let task = || text(members.task_id).unwrap_or_default();
    match subtype.as_str() {
        "session_state_changed" => match text(members.state).as_deref() {
            Some("idle") => Sign::State(State::Idle),
            Some("requires_action") => Sign::State(State::RequiresAction),
            _ => Sign::State(State::Running),
        },
        "task_started" => match text(members.task_type).as_deref() {
            Some("local_agent" | "local_workflow") => Sign::TaskBegan(task()),
            _ => Sign::Other,
        },
        "task_notification" => Sign::TaskEnded(task()),
        "task_updated" if has_ended(members) => Sign::TaskEnded(task()),
        _ => Sign::Other,
    }
}

fn has_ended(members: &Members<'_>) -> bool {
    let patch = members.patch.map_or("{}", RawValue::get);
    let patch: Members<'_> = serde_json::from_str(patch).unwrap_or_default();
    let status = text(members.status).or_else(|| text(patch.status));
    let ended = ["completed", "failed", "killed", "stopped", "cancelled"];
    status.is_some_and(|status| ended.contains(&status.as_str()))
}

fn text(member: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(member?.get()).ok()
}

fn flag(member: Option<&RawValue>) -> bool {
    member.is_some_and(|member| member.get() == "true")
}

/// Asks the CLI something.
pub(super) fn request(id: &str, request: &Value) -> Vec<u8> {
    let id = quoted(id);
    line(format!(
        r#"{{"type":"control_request","request_id":{id},"request":{request}}}"#
    ))
}

/// Hands the CLI what a server of ours says by itself.
pub(super) fn server_message(id: &str, server: &str, message: &str) -> Vec<u8> {
    let (id, server) = (quoted(id), quoted(server));
    line(format!(
        r#"{{"type":"control_request","request_id":{id},"request":{{"subtype":"mcp_message","server_name":{server},"message":{message}}}}}"#
    ))
}

/// No longer wants what was asked.
pub(super) fn cancel(id: &str) -> Vec<u8> {
    let id = quoted(id);
    line(format!(
        r#"{{"type":"control_cancel_request","request_id":{id}}}"#
    ))
}

/// Answers a request of the CLI's; `payload` is JSON.
pub(super) fn success(id: &str, payload: &str) -> Vec<u8> {
    let id = quoted(id);
    line(format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{id},"response":{payload}}}}}"#
    ))
}

/// Refuses a request of the CLI's.
pub(super) fn refusal(id: &str, error: &str) -> Vec<u8> {
    let (id, error) = (quoted(id), quoted(error));
    line(format!(
        r#"{{"type":"control_response","response":{{"subtype":"error","request_id":{id},"error":{error}}}}}"#
    ))
}

/// Says something to the model.
pub(super) fn user(session: &str, content: &Value) -> Vec<u8> {
    let session = quoted(session);
    line(format!(
        r#"{{"type":"user","session_id":{session},"message":{{"role":"user","content":{content}}},"parent_tool_use_id":null}}"#
    ))
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}

/// JSON as one line. Ends of lines in it can only stand between its members, where a space is as good.
fn line(json: String) -> Vec<u8> {
    let mut line = json.into_bytes();
    for byte in &mut line {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    line
}
