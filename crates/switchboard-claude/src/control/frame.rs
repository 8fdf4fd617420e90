//! Lines of the control protocol: parses those of the CLI and writes those of this program.
//!
//! Parsing builds no tree of values: the members of [`FrameMembers`] are kept as raw JSON, and all
//! others are skipped. Invariant: every written frame is a single line, even if the JSON in it
//! contains line breaks.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::turn_end::{CliReport, SessionState};

/// One line that the CLI wrote, classified by its `type`.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    /// The CLI sends a request, which this program must answer.
    Request {
        id: String,
        request: Option<&'a RawValue>,
    },
    /// The CLI cancels a request that it sent before.
    Cancel { id: String },
    /// The CLI responds to a request of this program.
    Response { id: String, response: Response },
    /// A message of the session. If `host_only` is set, the message is meant for this crate and is
    /// not queued for the user.
    Message { signal: CliReport, host_only: bool },
    /// A line that needs no action: a keep-alive, or a malformed response.
    Ignored,
}

/// The CLI's response to a request of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// The request succeeded. Holds the payload as JSON text, if there is one.
    Success(Option<String>),
    Error {
        message: String,
        code: Option<String>,
    },
}

/// The members that this crate reads in a frame, in its `response` and in its `patch`. They are
/// kept as raw JSON, because a member of an unexpected type must not make the whole frame invalid.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FrameMembers<'a> {
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
    /// Parses and classifies a line that starts with `{`. Fails if the line is not valid JSON, or if
    /// it contains one of the members of [`FrameMembers`] twice.
    pub(super) fn parse(line: &'a str) -> Result<Self, serde_json::Error> {
        let members: FrameMembers<'a> = serde_json::from_str(line)?;
        let id = text(members.request_id).unwrap_or_default();
        let kind = text(members.kind).unwrap_or_default();
        Ok(match kind.as_str() {
            "control_request" => Self::Request {
                id,
                request: members.request,
            },
            "control_cancel_request" => Self::Cancel { id },
            "control_response" => members.response.map_or(Self::Ignored, parse_response),
            "keep_alive" => Self::Ignored,
            kind => Self::Message {
                signal: cli_report(kind, &members),
                host_only: flag(members.sdk_host_only),
            },
        })
    }
}

fn parse_response(response: &RawValue) -> Frame<'_> {
    let Ok(members) = serde_json::from_str::<FrameMembers<'_>>(response.get()) else {
        return Frame::Ignored;
    };
    let response = if text(members.subtype).as_deref() == Some("error") {
        Response::Error {
            message: text(members.error).unwrap_or_else(|| "no error message".to_owned()),
            code: text(members.error_code),
        }
    } else {
        Response::Success(members.response.map(|payload| payload.get().to_owned()))
    };
    let id = text(members.request_id).unwrap_or_default();
    Frame::Response { id, response }
}

fn cli_report(kind: &str, members: &FrameMembers<'_>) -> CliReport {
    if kind == "result" {
        let is_error = flag(members.is_error);
        return CliReport::Result { is_error };
    }
    let subtype = text(members.subtype);
    let (Some(subtype), "system") = (subtype, kind) else {
        return CliReport::Other;
    };
    let task = || text(members.task_id).unwrap_or_default();
    match subtype.as_str() {
        "session_state_changed" => match text(members.state).as_deref() {
            Some("idle") => CliReport::State(SessionState::Idle),
            Some("requires_action") => CliReport::State(SessionState::RequiresAction),
            _ => CliReport::State(SessionState::Running),
        },
        "task_started" => match text(members.task_type).as_deref() {
            Some("local_agent" | "local_workflow") => CliReport::TaskStarted(task()),
            _ => CliReport::Other,
        },
        "task_notification" => CliReport::TaskEnded(task()),
        "task_updated" if is_task_ended(members) => CliReport::TaskEnded(task()),
        _ => CliReport::Other,
    }
}

fn is_task_ended(members: &FrameMembers<'_>) -> bool {
    let patch = members.patch.map_or("{}", RawValue::get);
    let patch: FrameMembers<'_> = serde_json::from_str(patch).unwrap_or_default();
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

/// Encodes a request to the CLI as a line.
pub(super) fn request(id: &str, request: &Value) -> Vec<u8> {
    let id = quoted(id);
    line(format!(
        r#"{{"type":"control_request","request_id":{id},"request":{request}}}"#
    ))
}

/// Encodes a notification that an in-process server sends to the CLI.
pub(super) fn server_message(id: &str, server: &str, message: &str) -> Vec<u8> {
    let (id, server) = (quoted(id), quoted(server));
    line(format!(
        r#"{{"type":"control_request","request_id":{id},"request":{{"subtype":"mcp_message","server_name":{server},"message":{message}}}}}"#
    ))
}

/// Encodes the cancellation of a request that this program sent.
pub(super) fn cancel(id: &str) -> Vec<u8> {
    let id = quoted(id);
    line(format!(
        r#"{{"type":"control_cancel_request","request_id":{id}}}"#
    ))
}

/// Encodes a success response to a request of the CLI. `payload` is JSON text.
pub(super) fn success(id: &str, payload: &str) -> Vec<u8> {
    let id = quoted(id);
    line(format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{id},"response":{payload}}}}}"#
    ))
}

/// Encodes an error response to a request of the CLI. `error` is the error message.
pub(super) fn error(id: &str, error: &str) -> Vec<u8> {
    let (id, error) = (quoted(id), quoted(error));
    line(format!(
        r#"{{"type":"control_response","response":{{"subtype":"error","request_id":{id},"error":{error}}}}}"#
    ))
}

/// Encodes a prompt for the model.
pub(super) fn prompt(session: &str, content: &Value) -> Vec<u8> {
    let session = quoted(session);
    line(format!(
        r#"{{"type":"user","session_id":{session},"message":{{"role":"user","content":{content}}},"parent_tool_use_id":null}}"#
    ))
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}

/// Replaces each line break in JSON text by a space and appends one line feed. JSON strings contain
/// no raw line breaks, so each line break is whitespace between tokens.
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
