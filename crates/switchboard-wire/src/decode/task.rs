//! Decodes tasks: tool calls that a server runs in the background, in both eras.
//!
//! Invariant: a task with an id that is too long to be sent back, or with an unknown status, is
//! rejected.

use std::time::Duration;

use serde_json::Value;

use super::input_required::{InputRequest, input_requests};
use super::results::{IncompleteResult, call_tool_result};
use super::{InvalidMessage, MAX_STATUS_BYTES, parse};
use crate::jsonrpc::{RawResult, decode_error_object};
use crate::mcp::{CallToolResult, ErrorObject};
use crate::text::truncate_marked;

/// Maximum length of a task id, in bytes. Every request about the task contains the id, also in an
/// HTTP header.
const MAX_TASK_ID_BYTES: usize = 1024;
/// Longer times are lowered to this, in milliseconds.
const MAX_MILLIS: f64 = 1e12;
/// An unknown status is truncated to this many bytes in messages.
const MAX_SHOWN_STATUS_BYTES: usize = 100;

/// The state of a task, as the server reports it.
#[derive(Debug, PartialEq)]
pub struct Task {
    /// The id, at most 1 KiB.
    pub id: String,
    pub status: TaskStatus,
    /// A description of the status for the user.
    pub status_message: Option<String>,
    /// How often the server wants to be polled.
    pub poll_interval: Option<Duration>,
    /// How long the server keeps the task after it was created.
    pub ttl: Option<Duration>,
}

/// The status of a task.
#[derive(Debug, PartialEq)]
pub enum TaskStatus {
    /// The task is running.
    Working,
    /// The server needs input. Empty for legacy servers, which send JSON-RPC requests instead.
    InputRequired(Vec<InputRequest>),
    /// The task succeeded. Legacy servers send no result here; it has to be requested.
    Completed(Option<Box<CallToolResult>>),
    /// The task failed. Only modern servers send the error here.
    Failed(Option<ErrorObject>),
    /// The task was cancelled.
    Cancelled,
}

/// Decodes the capability `tasks` of a 2025-11-25 server: whether tool calls can run as tasks, and
/// whether tasks can be cancelled.
pub(super) fn task_capability(value: &[u8]) -> (bool, bool) {
    let capability: Value = parse(value).unwrap_or_default();
    let is_offered = |pointer: &str| {
        capability
            .pointer(pointer)
            .is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
    };
    (is_offered("/requests/tools/call"), is_offered("/cancel"))
}

/// Returns the task that a 2025-11-25 server created for a call, or `None` if the server responded
/// with the result.
pub fn created_task(result: &RawResult) -> Result<Option<Task>, InvalidMessage> {
    let mut value = None;
    result.members(|key, member| {
        if key == b"task" {
            value = Some(member);
        }
    })?;
    match value.and_then(|value| result.nested(value)) {
        Some(nested) => task(&nested, 0).map(Some),
        None => Ok(None),
    }
}

/// Decodes a task, with at most `max_blocks` content blocks of its result.
pub fn task(raw: &RawResult, max_blocks: usize) -> Result<Task, InvalidMessage> {
    let (mut id, mut status, mut message) = (None::<String>, None::<String>, None::<String>);
    let (mut poll_interval, mut ttl) = (None, None);
    let (mut requests, mut result, mut error) = (None, None, None);
    raw.members(|key, value| match key {
        b"taskId" => id = parse(value),
        b"status" => status = parse(value),
        b"statusMessage" => message = parse(value),
        b"pollIntervalMs" | b"pollInterval" => poll_interval = duration(value),
        b"ttlMs" | b"ttl" => ttl = duration(value),
        b"inputRequests" => requests = Some(value),
        b"result" => result = Some(value),
        b"error" => error = Some(value),
        _ => {}
    })?;
    let id = id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| InvalidMessage::malformed("a task has no `taskId`"))?;
    if id.len() > MAX_TASK_ID_BYTES {
        let problem = format!("the `taskId` of a task is longer than {MAX_TASK_ID_BYTES} bytes");
        return Err(InvalidMessage::Malformed(problem));
    }
    let status = match status.as_deref() {
        Some("working") => TaskStatus::Working,
        Some("input_required") => {
            let requests = requests.filter(|requests| *requests != b"null");
            let requests = requests.map(input_requests).transpose()?;
            TaskStatus::InputRequired(requests.unwrap_or_default())
        }
        Some("completed") => {
            let nested = result.and_then(|result| raw.nested(result));
            let result = nested.map(|nested| final_result(&nested, max_blocks));
            TaskStatus::Completed(result.transpose()?.map(Box::new))
        }
        Some("failed") => TaskStatus::Failed(error.map(decode_error_object).transpose()?),
        Some("cancelled") => TaskStatus::Cancelled,
        Some(other) => {
            let shown = truncate_marked(other.to_owned(), MAX_SHOWN_STATUS_BYTES);
            return Err(InvalidMessage::malformed(format!(
                "a task has the unknown status {shown:?}"
            )));
        }
        None => return Err(InvalidMessage::malformed("a task has no `status`")),
    };
    Ok(Task {
        id,
        status,
        status_message: message.map(|message| truncate_marked(message, MAX_STATUS_BYTES)),
        poll_interval,
        ttl,
    })
}

fn final_result(raw: &RawResult, max_blocks: usize) -> Result<CallToolResult, InvalidMessage> {
    call_tool_result(raw, max_blocks).map_err(|incomplete| match incomplete {
        IncompleteResult::Invalid(problem) => problem,
        _ => InvalidMessage::malformed("the result of a completed task is not complete"),
    })
}

/// Decodes a number of milliseconds. Anything but a positive number counts as missing.
fn duration(value: &[u8]) -> Option<Duration> {
    let millis: f64 = parse(value)?;
    (millis > 0.0).then(|| Duration::from_secs_f64(millis.min(MAX_MILLIS) / 1000.0))
}
