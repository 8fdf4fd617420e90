//! Tasks: what a server says of a call that it carries out in its own time, in both eras.
//!
//! Invariant: an id that is too long to be sent back is no id, and a status that nobody knows is no
//! task.

use std::time::Duration;

use serde_json::Value;

use super::input_required::{InputRequest, NoResult, input_requests};
use super::{NOTE_BYTES, call_tool_result, cut, error_object, parse};
use crate::jsonrpc::{Answer, InvalidMessage};
use crate::mcp::{CallToolResult, ErrorObject};

/// Longer ids than this are refused, in bytes: they go back with every request, in a header too.
const TASK_ID_BYTES: usize = 1024;
/// Longer times than this mean as much as this.
const LONGEST_MS: f64 = 1e12;

/// A task as it stands.
#[derive(Debug, PartialEq)]
pub struct Task {
    pub id: String,
    pub status: TaskStatus,
    /// The same in words, for people.
    pub message: Option<String>,
    /// How often the server wants to be asked.
    pub interval: Option<Duration>,
    /// How long after its beginning the server keeps it.
    pub kept_for: Option<Duration>,
}

#[derive(Debug, PartialEq)]
pub enum TaskStatus {
    Working,
    /// With what the server wants to know (modern; older ones ask by requests of their own).
    InputRequired(Vec<InputRequest>),
    /// With its result (modern; older ones are asked for it).
    Completed(Option<Box<CallToolResult>>),
    /// With the server's words (modern).
    Failed(Option<ErrorObject>),
    Cancelled,
}

/// Whether a server of 2025-11-25 runs tool calls as tasks, and whether those can be cancelled.
pub(super) fn capability(written: &[u8]) -> (bool, bool) {
    let written: Value = parse(written).unwrap_or_default();
    let is_offered = |pointer: &str| {
        written
            .pointer(pointer)
            .is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
    };
    (is_offered("/requests/tools/call"), is_offered("/cancel"))
}

/// The task that a server of 2025-11-25 made of a call, if it made one.
pub fn created_task(answer: &Answer) -> Result<Option<Task>, InvalidMessage> {
    let mut written = None;
    answer.members(|key, value| {
        if key == b"task" {
            written = Some(value);
        }
    })?;
    match written.and_then(|written| answer.part(written)) {
        Some(part) => task(&part, 0).map(Some),
        None => Ok(None),
    }
}

/// Reads a task; of its result, if it has one, no more than `most` blocks.
pub fn task(answer: &Answer, most: usize) -> Result<Task, InvalidMessage> {
    let (mut id, mut status, mut message) = (None::<String>, None::<String>, None::<String>);
    let (mut interval, mut kept_for) = (None, None);
    let (mut asked, mut result, mut error) = (None, None, None);
    answer.members(|key, value| match key {
        b"taskId" => id = parse(value),
        b"status" => status = parse(value),
        b"statusMessage" => message = parse(value),
        b"pollIntervalMs" | b"pollInterval" => interval = duration(value),
        b"ttlMs" | b"ttl" => kept_for = duration(value),
        b"inputRequests" => asked = Some(value),
        b"result" => result = Some(value),
        b"error" => error = Some(value),
        _ => {}
    })?;
    let id = id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| InvalidMessage::malformed("a task without `taskId`"))?;
    if id.len() > TASK_ID_BYTES {
        let why = format!("the id of its task is longer than {TASK_ID_BYTES} bytes");
        return Err(InvalidMessage::Malformed(why));
    }
    let status = match status.as_deref() {
        Some("working") => TaskStatus::Working,
        Some("input_required") => {
            let asked = asked.filter(|asked| *asked != b"null");
            TaskStatus::InputRequired(asked.map(input_requests).transpose()?.unwrap_or_default())
        }
        Some("completed") => {
            let result = result.and_then(|result| answer.part(result));
            let result = result.map(|result| complete(&result, most)).transpose()?;
            TaskStatus::Completed(result.map(Box::new))
        }
        Some("failed") => TaskStatus::Failed(error.map(error_object).transpose()?),
        Some("cancelled") => TaskStatus::Cancelled,
        Some(other) => {
            let other = cut(other.to_owned(), 100);
            return Err(InvalidMessage::malformed(format!(
                "a task of the unknown status {other:?}"
            )));
        }
        None => return Err(InvalidMessage::malformed("a task without `status`")),
    };
    Ok(Task {
        id,
        status,
        message: message.map(|message| cut(message, NOTE_BYTES)),
        interval,
        kept_for,
    })
}

fn complete(result: &Answer, most: usize) -> Result<CallToolResult, InvalidMessage> {
    call_tool_result(result, most).map_err(|other| match other {
        NoResult::Unusable(problem) => problem,
        _ => InvalidMessage::malformed("the result of its task is not complete"),
    })
}

/// A number of milliseconds; anything else is as if it had not been said.
fn duration(written: &[u8]) -> Option<Duration> {
    let millis: f64 = parse(written)?;
    (millis > 0.0).then(|| Duration::from_secs_f64(millis.min(LONGEST_MS) / 1000.0))
}
