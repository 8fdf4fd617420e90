//! What servers answer besides the results of tools: resources, prompts, completions.

use serde::Deserialize;

use super::{WrittenResource, block, cut, parse, scan, text};
use crate::jsonrpc::{Answer, InvalidMessage};
use crate::mcp::{Completion, GetPromptResult, PromptMessage, ReadResourceResult};

/// How many values of a completion are kept; the protocol allows as many.
const COMPLETIONS: usize = 100;
/// How much of one of them is kept.
const COMPLETION_BYTES: usize = 4 * 1024;
/// How much of what a prompt says of itself is kept.
const DESCRIPTION_BYTES: usize = 64 * 1024;

/// Decodes the answer to `resources/read`, and of it no more than `most` parts.
pub fn resource_result(answer: &Answer, most: usize) -> Result<ReadResourceResult, InvalidMessage> {
    let mut result = ReadResourceResult::default();
    let mut contents = None;
    answer.members(|key, value| match key {
        b"contents" => contents = Some(value),
        b"_meta" => result.meta = answer.json(value),
        _ => {}
    })?;
    let contents = contents.ok_or_else(|| InvalidMessage::malformed("no `contents` in it"))?;
    for element in scan::elements(contents) {
        let element =
            element.map_err(|_| InvalidMessage::malformed("`contents` is not an array"))?;
        if result.contents.len() == most {
            result.left_out += 1;
            continue;
        }
        let part: WrittenResource = parse(element)
            .ok_or_else(|| InvalidMessage::malformed("a part of the resource is malformed"))?;
        result.contents.push(part.into());
    }
    Ok(result)
}

/// Decodes the answer to `prompts/get`, and of it no more than `most` messages.
pub fn prompt_result(answer: &Answer, most: usize) -> Result<GetPromptResult, InvalidMessage> {
    let mut result = GetPromptResult::default();
    let mut messages = None;
    answer.members(|key, value| match key {
        b"messages" => messages = Some(value),
        b"description" => {
            result.description = parse(value).map(|text| cut(text, DESCRIPTION_BYTES));
        }
        b"_meta" => result.meta = answer.json(value),
        _ => {}
    })?;
    let messages = messages.ok_or_else(|| InvalidMessage::malformed("no `messages` in it"))?;
    for element in scan::elements(messages) {
        let element =
            element.map_err(|_| InvalidMessage::malformed("`messages` is not an array"))?;
        if result.messages.len() == most {
            result.left_out += 1;
            continue;
        }
        let (mut role, mut content) = (None, None);
        scan::members(element, |key, value| match &*key {
            b"role" => role = text(value).and_then(|role| role.parse().ok()),
            b"content" => content = Some(value),
            _ => {}
        })
        .map_err(|_| InvalidMessage::malformed("a message is not an object"))?;
        let content =
            content.ok_or_else(|| InvalidMessage::malformed("a message without `content`"))?;
        result.messages.push(PromptMessage {
            role: role.ok_or_else(|| {
                InvalidMessage::malformed(
                    "a message whose `role` is neither `user` nor `assistant`",
                )
            })?,
            content: block(content)?,
        });
    }
    Ok(result)
}

/// Decodes the answer to `completion/complete`.
pub fn completion(answer: &Answer) -> Result<Completion, InvalidMessage> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Written {
        values: Vec<String>,
        total: Option<u64>,
        #[serde(default)]
        has_more: bool,
    }
    let mut written = None;
    answer.members(|key, value| {
        if key == b"completion" {
            written = parse::<Written>(value);
        }
    })?;
    let mut written =
        written.ok_or_else(|| InvalidMessage::malformed("no usable `completion` in it"))?;
    let count = written.values.len();
    written.values.truncate(COMPLETIONS);
    // Half a value completes nothing.
    written
        .values
        .retain(|value| value.len() <= COMPLETION_BYTES);
    Ok(Completion {
        has_more: written.has_more || written.values.len() < count,
        total: written.total,
        values: written.values,
    })
}
