//! Decodes the results of `tools/call`, `resources/read`, `prompts/get` and `completion/complete`.

use serde::Deserialize;

use super::content::{RawResource, content_block, content_blocks};
use super::input_required::{InputRequired, decode_input_required};
use super::{InvalidMessage, Task, parse, task};
use crate::jsonrpc::RawResult;
use crate::mcp::{CallToolResult, Completion, GetPromptResult, PromptMessage, ReadResourceResult};
use crate::scan;
use crate::text::truncate_marked;

/// Maximum number of values of a completion. The protocol allows no more.
const MAX_COMPLETIONS: usize = 100;
/// Longer values of a completion are dropped: a truncated value would be a wrong completion.
const MAX_COMPLETION_BYTES: usize = 4 * 1024;
/// Longer descriptions of a prompt are truncated.
const MAX_DESCRIPTION_BYTES: usize = 64 * 1024;
/// An unknown `resultType` is truncated to this many bytes in messages.
const MAX_SHOWN_TYPE_BYTES: usize = 100;

/// The `resultType` of a final result. A missing `resultType` means the same.
const COMPLETE: &[u8] = b"\"complete\"";

/// Why a response to a tool call does not contain the result of the tool.
#[derive(Debug, PartialEq)]
pub enum IncompleteResult {
    /// The response is invalid.
    Invalid(InvalidMessage),
    /// The server needs input before it can continue.
    InputRequired(Box<InputRequired>),
    /// The server runs the call as a task.
    Task(Box<Task>),
}

impl From<InvalidMessage> for IncompleteResult {
    fn from(problem: InvalidMessage) -> Self {
        Self::Invalid(problem)
    }
}

impl IncompleteResult {
    /// Decodes a result whose `resultType` is not `complete`.
    #[cold]
    pub(super) fn decode(result: &RawResult, result_type: &[u8]) -> Self {
        let decoded = match scan::string_value(result_type).as_deref() {
            Some("input_required") => {
                decode_input_required(result).map(|input| Self::InputRequired(Box::new(input)))
            }
            // A task that was just created has no result, so no content blocks are decoded.
            Some("task") => task(result, 0).map(|task| Self::Task(Box::new(task))),
            _ => {
                let shown = String::from_utf8_lossy(result_type).into_owned();
                let shown = truncate_marked(shown, MAX_SHOWN_TYPE_BYTES);
                Err(InvalidMessage::malformed(format!(
                    "unknown `resultType` {shown}"
                )))
            }
        };
        decoded.unwrap_or_else(Self::Invalid)
    }
}

/// Returns the `resultType` unless it is `complete`.
pub(super) fn incomplete_type(result_type: Option<&[u8]>) -> Option<&[u8]> {
    result_type.filter(|result_type| *result_type != COMPLETE)
}

/// Decodes the result of `tools/call`, with at most `max_blocks` content blocks.
pub fn call_tool_result(
    raw: &RawResult,
    max_blocks: usize,
) -> Result<CallToolResult, IncompleteResult> {
    let mut result = CallToolResult::default();
    let mut content = None;
    let mut result_type = None;
    raw.members(|key, value| match key {
        b"content" => content = Some(value),
        b"structuredContent" => result.structured_content = raw.json(value),
        // Some servers send a string. A failure must not be taken for a success.
        b"isError" => result.is_error = matches!(value, b"true" | b"\"true\""),
        b"resultType" => result_type = Some(value),
        b"_meta" => result.meta = raw.json(value),
        _ => {}
    })?;
    if let Some(result_type) = incomplete_type(result_type) {
        return Err(IncompleteResult::decode(raw, result_type));
    }
    if let Some(content) = content.filter(|content| *content != b"null") {
        let list = content_blocks(content, max_blocks)?;
        (result.content, result.blocks_left_out) = (list.blocks, list.left_out);
    }
    Ok(result)
}

/// Decodes the result of `resources/read`, with at most `max_parts` parts.
pub fn resource_result(
    raw: &RawResult,
    max_parts: usize,
) -> Result<ReadResourceResult, InvalidMessage> {
    let mut result = ReadResourceResult::default();
    let mut contents = None;
    raw.members(|key, value| match key {
        b"contents" => contents = Some(value),
        b"_meta" => result.meta = raw.json(value),
        _ => {}
    })?;
    let contents = contents.ok_or_else(|| InvalidMessage::malformed("no `contents`"))?;
    for element in scan::elements(contents) {
        let element =
            element.map_err(|_| InvalidMessage::malformed("`contents` is not an array"))?;
        if result.contents.len() == max_parts {
            result.left_out += 1;
            continue;
        }
        let part: RawResource = parse(element)
            .ok_or_else(|| InvalidMessage::malformed("an element of `contents` is malformed"))?;
        result.contents.push(part.into());
    }
    Ok(result)
}

/// Decodes the result of `prompts/get`, with at most `max_messages` messages.
pub fn prompt_result(
    raw: &RawResult,
    max_messages: usize,
) -> Result<GetPromptResult, InvalidMessage> {
    let mut result = GetPromptResult::default();
    let mut messages = None;
    raw.members(|key, value| match key {
        b"messages" => messages = Some(value),
        b"description" => {
            let text = parse(value);
            result.description = text.map(|text| truncate_marked(text, MAX_DESCRIPTION_BYTES));
        }
        b"_meta" => result.meta = raw.json(value),
        _ => {}
    })?;
    let messages = messages.ok_or_else(|| InvalidMessage::malformed("no `messages`"))?;
    for element in scan::elements(messages) {
        let element =
            element.map_err(|_| InvalidMessage::malformed("`messages` is not an array"))?;
        if result.messages.len() == max_messages {
            result.left_out += 1;
        } else {
            result.messages.push(prompt_message(element)?);
        }
    }
    Ok(result)
}

fn prompt_message(bytes: &[u8]) -> Result<PromptMessage, InvalidMessage> {
    let (mut role, mut content) = (None, None);
    scan::members(bytes, |key, value| match &*key {
        b"role" => role = scan::string_value(value).and_then(|role| role.parse().ok()),
        b"content" => content = Some(value),
        _ => {}
    })
    .map_err(|_| InvalidMessage::malformed("a message is not an object"))?;
    let content = content.ok_or_else(|| InvalidMessage::malformed("a message has no `content`"))?;
    let role = role.ok_or_else(|| {
        InvalidMessage::malformed("the `role` of a message is not `user` or `assistant`")
    })?;
    Ok(PromptMessage::new(role, content_block(content)?))
}

/// Decodes the result of `completion/complete`.
pub fn completion(raw: &RawResult) -> Result<Completion, InvalidMessage> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RawCompletion {
        values: Vec<String>,
        total: Option<u64>,
        #[serde(default)]
        has_more: bool,
    }
    let mut completion = None;
    raw.members(|key, value| {
        if key == b"completion" {
            completion = parse::<RawCompletion>(value);
        }
    })?;
    let mut completion =
        completion.ok_or_else(|| InvalidMessage::malformed("no valid `completion`"))?;
    let received = completion.values.len();
    completion.values.truncate(MAX_COMPLETIONS);
    completion
        .values
        .retain(|value| value.len() <= MAX_COMPLETION_BYTES);
    Ok(Completion {
        has_more: completion.has_more || completion.values.len() < received,
        total: completion.total,
        values: completion.values,
    })
}
