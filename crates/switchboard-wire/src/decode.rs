//! Results, decoded by the method that was asked for.
//!
//! Tolerant: one malformed tool is left out and reported, a block of an unknown kind is carried
//! through, extra members are ignored. What cannot be used at all is a [`InvalidMessage`], never a guess.

mod cache_hint;
mod input_required;
mod listing;
mod results;
mod subscription;
mod task;

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use cache_hint::Freshness;
pub use input_required::{InputRequest, InputRequired, NoResult, asked_in};
pub use listing::{Item, LeftOut, Page, page, prompt, resource, resource_template, tool};
pub use results::{completion, prompt_result, resource_result};
pub use subscription::{SubscriptionNotice, subscription_notice};
pub use task::{Task, TaskStatus, created_task, task};

use crate::jsonrpc::{Answer, InvalidMessage};
use crate::mcp::{
    CallToolResult, ContentBlock, EmbeddedResource, ErrorObject, Implementation, Json,
    MediaContent, Progress, ResourceBody, ResourceLink, ServerCapabilities, TextContent,
};
use crate::scan::{self, NotJson};

/// How much of a server's instructions is kept.
const INSTRUCTION_BYTES: usize = 64 * 1024;
/// How much of the data of a log message is kept.
pub const LOG_BYTES: usize = 4 * 1024;
/// How much of a progress note, a log level and the like is kept.
const NOTE_BYTES: usize = 4 * 1024;
/// How much of a server's error message is kept.
const ERROR_MESSAGE_BYTES: usize = 4 * 1024;
/// How much of a server's error data is kept.
const ERROR_DATA_BYTES: usize = 64 * 1024;

/// The answer to `initialize`, its version not yet judged.
#[derive(Debug, PartialEq)]
pub struct Initialized {
    pub version: String,
    pub server: SelfDescription,
}

/// The answer to `server/discover`, its versions not yet judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    pub supported: Vec<String>,
    pub server: SelfDescription,
}

/// What a server says of itself in either era.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelfDescription {
    pub info: Option<Implementation>,
    pub capabilities: ServerCapabilities,
    pub instructions: Option<String>,
}

pub fn error_object(bytes: &[u8]) -> Result<ErrorObject, InvalidMessage> {
    #[derive(Deserialize)]
    struct Written<'a> {
        code: Option<f64>,
        message: Option<String>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let Ok(written) = serde_json::from_slice::<Written<'_>>(bytes) else {
        // Not an error object, but still the server's no: keep its words.
        let words = serde_json::from_slice::<String>(bytes)
            .or_else(|_| serde_json::from_slice::<&RawValue>(bytes).map(|raw| raw.get().to_owned()))
            .map_err(|_| InvalidMessage::malformed("`error` is not valid JSON"))?;
        return Ok(ErrorObject::new(
            ErrorObject::INTERNAL,
            cut(words, ERROR_MESSAGE_BYTES),
        ));
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a code is a small integer, `as` saturates"
    )]
    let code = written
        .code
        .map_or(ErrorObject::INTERNAL, |code| code as i64);
    let mut error = ErrorObject::new(
        code,
        cut(written.message.unwrap_or_default(), ERROR_MESSAGE_BYTES),
    );
    error.data = written
        .data
        .filter(|data| data.get().len() <= ERROR_DATA_BYTES)
        .map(|data| data.to_owned().into());
    Ok(error)
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(" [cut]");
    }
    text
}

pub fn initialized(answer: &Answer) -> Result<Initialized, InvalidMessage> {
    let mut version = None;
    let mut server = SelfDescription::default();
    answer.members(|key, value| match key {
        b"protocolVersion" => version = parse(value),
        b"serverInfo" => server.info = parse(value),
        b"capabilities" => server.capabilities = capabilities(value),
        b"instructions" => {
            server.instructions = parse(value).map(|text| cut(text, INSTRUCTION_BYTES));
        }
        _ => {}
    })?;
    let version = version.ok_or_else(|| InvalidMessage::malformed("no `protocolVersion` in it"))?;
    Ok(Initialized { version, server })
}

pub fn discovered(answer: &Answer) -> Result<Discovered, InvalidMessage> {
    let mut supported = None;
    let mut server = SelfDescription::default();
    let mut info_in_meta = None;
    answer.members(|key, value| match key {
        b"supportedVersions" => supported = parse(value),
        b"serverInfo" => server.info = parse(value),
        b"capabilities" => server.capabilities = capabilities(value),
        b"instructions" => {
            server.instructions = parse(value).map(|text| cut(text, INSTRUCTION_BYTES));
        }
        b"_meta" => {
            // A `_meta` that is no object simply holds no server info.
            let _ = scan::members(value, |key, value| {
                if *key == *b"io.modelcontextprotocol/serverInfo" {
                    info_in_meta = parse(value);
                }
            });
        }
        _ => {}
    })?;
    server.info = info_in_meta.or(server.info);
    let supported =
        supported.ok_or_else(|| InvalidMessage::malformed("no `supportedVersions` in it"))?;
    Ok(Discovered { supported, server })
}

fn capabilities(bytes: &[u8]) -> ServerCapabilities {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Written {
        #[serde(default)]
        list_changed: bool,
        #[serde(default)]
        subscribe: bool,
    }
    let mut found = ServerCapabilities {
        raw: json(bytes),
        ..ServerCapabilities::default()
    };
    // Capabilities that are no object are none.
    let _ = scan::members(bytes, |key, value| {
        let offered = value != b"null" && value != b"false";
        let written: Written = parse(value).unwrap_or_default();
        match &*key {
            b"tools" => {
                found.tools = offered;
                found.tools_list_changed = written.list_changed;
            }
            b"resources" => {
                found.resources = offered;
                found.resources_list_changed = written.list_changed;
                found.resources_subscribe = written.subscribe;
            }
            b"prompts" => {
                found.prompts = offered;
                found.prompts_list_changed = written.list_changed;
            }
            b"logging" => found.logging = offered,
            b"completions" => found.completions = offered,
            b"tasks" => (found.tasks, found.tasks_cancel) = task::capability(value),
            _ => {}
        }
    });
    found
}

/// Decodes the answer of a tool, and of it no more than `most` blocks.
pub fn call_tool_result(answer: &Answer, most: usize) -> Result<CallToolResult, NoResult> {
    let mut result = CallToolResult::default();
    let mut content = None;
    let mut kind = None;
    let mut is_error = None;
    answer.members(|key, value| match key {
        b"content" => content = Some(value),
        b"structuredContent" => result.structured_content = answer.json(value),
        // Some servers write it as a string; a failure must not pass for a success.
        b"isError" => is_error = Some(matches!(value, b"true" | b"\"true\"")),
        b"resultType" => kind = Some(value),
        b"_meta" => result.meta = answer.json(value),
        _ => {}
    })?;
    if let Some(kind) = kind.filter(|kind| *kind != b"\"complete\"") {
        return Err(input_required::no_result(answer, kind));
    }
    result.is_error = is_error.unwrap_or(false);
    if let Some(content) = content.filter(|content| *content != b"null") {
        (result.content, result.blocks_left_out) = match plain_texts(content, most) {
            Some(texts) => (texts, 0),
            None => match all_blocks(content, most) {
                Ok(blocks) => blocks,
                Err(_) => one_by_one(content, most)?,
            },
        };
    }
    Ok(result)
}

/// All blocks, if they are texts and nothing else, which is what most results are.
fn plain_texts(content: &[u8], most: usize) -> Option<Vec<ContentBlock>> {
    // Nearly always there is one.
    let mut texts = Vec::with_capacity(1);
    let mut blocks = scan::again(content);
    let mut are_plain = true;
    let scanned = blocks.each_element(|block| {
        let (mut kind, mut text) = (None, None);
        block.members(|key, value| {
            are_plain &= match &*key {
                b"type" => kind.replace(value).is_none(),
                b"text" => text.replace(value).is_none(),
                _ => false,
            };
        })?;
        let is_text = are_plain && kind == Some(b"\"text\"") && texts.len() < most;
        let written = text.filter(|_| is_text).and_then(self::text);
        texts.push(ContentBlock::text(written.ok_or(NotJson)?));
        Ok(())
    });
    (scanned.is_ok() && blocks.at_end()).then_some(texts)
}

/// The text that a JSON string stands for.
pub(super) fn text(written: &[u8]) -> Option<Cow<'_, str>> {
    match scan::plain_string(written, 0) {
        Some((plain, end)) if end == written.len() => {
            std::str::from_utf8(plain).ok().map(Cow::Borrowed)
        }
        _ => parse(written).map(Cow::Owned),
    }
}

/// The union of all blocks, so that any of them is decoded in one pass.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenBlock<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    size: Option<u64>,
    resource: Option<WrittenResource>,
    annotations: Option<Json>,
    #[serde(rename = "_meta")]
    meta: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenResource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<Json>,
}

impl From<WrittenResource> for ResourceBody {
    fn from(written: WrittenResource) -> Self {
        Self {
            uri: written.uri,
            mime_type: written.mime_type,
            text: written.text,
            blob: written.blob,
            meta: written.meta,
        }
    }
}

/// The blocks that were taken, and how many were left out.
type Blocks = (Vec<ContentBlock>, usize);

/// All blocks in one pass, if every one of them is as it should be.
fn all_blocks(content: &[u8], most: usize) -> serde_json::Result<Blocks> {
    let mut text = serde_json::Deserializer::from_slice(content);
    let blocks = UpTo(most).deserialize(&mut text)?;
    text.end().map(|()| blocks)
}

/// Takes so many blocks, and counts the others.
struct UpTo(usize);

impl<'de> DeserializeSeed<'de> for UpTo {
    type Value = Blocks;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Blocks, D::Error> {
        text.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for UpTo {
    type Value = Blocks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of blocks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Blocks, A::Error> {
        let (mut blocks, mut left_out) = (Vec::new(), 0);
        while blocks.len() < self.0
            && let Some(written) = elements.next_element()?
        {
            let block = known_block(written);
            blocks.push(block.ok_or_else(|| A::Error::custom("a block of another kind"))?);
        }
        while blocks.len() == self.0 && elements.next_element::<IgnoredAny>()?.is_some() {
            left_out += 1;
        }
        Ok((blocks, left_out))
    }
}

fn one_by_one(content: &[u8], most: usize) -> Result<Blocks, InvalidMessage> {
    let (mut blocks, mut left_out) = (Vec::new(), 0);
    for element in scan::elements(content) {
        let element =
            element.map_err(|_| InvalidMessage::malformed("`content` is not an array"))?;
        if blocks.len() < most {
            blocks.push(block(element)?);
        } else {
            left_out += 1;
        }
    }
    Ok((blocks, left_out))
}

fn block(bytes: &[u8]) -> Result<ContentBlock, InvalidMessage> {
    let typed = serde_json::from_slice::<WrittenBlock<'_>>(bytes)
        .ok()
        .and_then(known_block);
    match typed {
        Some(block) => Ok(block),
        None => json(bytes)
            .map(ContentBlock::Unknown)
            .ok_or_else(|| InvalidMessage::malformed("a content block is not valid JSON")),
    }
}

/// A block that is a link to a resource.
pub fn resource_link(bytes: &[u8]) -> Option<ResourceLink> {
    match block(bytes) {
        Ok(ContentBlock::ResourceLink(link)) => Some(link),
        _ => None,
    }
}

fn known_block(written: WrittenBlock<'_>) -> Option<ContentBlock> {
    let WrittenBlock {
        annotations, meta, ..
    } = written;
    Some(match &*written.r#type {
        "text" => ContentBlock::Text(TextContent {
            text: written.text?,
            annotations,
            meta,
        }),
        "image" => ContentBlock::Image(MediaContent {
            data: written.data?,
            mime_type: written.mime_type?,
            annotations,
            meta,
        }),
        "audio" => ContentBlock::Audio(MediaContent {
            data: written.data?,
            mime_type: written.mime_type?,
            annotations,
            meta,
        }),
        "resource_link" => ContentBlock::ResourceLink(ResourceLink {
            uri: written.uri?,
            name: written.name.unwrap_or_default(),
            title: written.title,
            description: written.description,
            mime_type: written.mime_type,
            size: written.size,
            annotations,
            meta,
        }),
        "resource" => ContentBlock::Resource(EmbeddedResource {
            resource: written.resource?.into(),
            annotations,
            meta,
        }),
        _ => return None,
    })
}

/// The request that a progress note speaks of, and the note.
pub fn progress(params: &[u8]) -> Option<(u64, Progress)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Written {
        progress_token: u64,
        #[serde(flatten)]
        note: Progress,
    }
    let Written {
        progress_token,
        mut note,
    } = parse(params)?;
    note.message = note.message.map(|text| cut(text, NOTE_BYTES));
    Some((progress_token, note))
}

/// A log message of the server.
#[derive(Debug, Deserialize)]
pub struct LogMessage {
    #[serde(default)]
    pub level: String,
    #[serde(default)]
    pub logger: Option<String>,
    #[serde(default)]
    pub data: Option<Json>,
}

pub fn log_message(params: &[u8]) -> Option<LogMessage> {
    let mut message: LogMessage = parse(params)?;
    message.level = cut(message.level, NOTE_BYTES);
    message.logger = message.logger.map(|logger| cut(logger, NOTE_BYTES));
    // Somewhat more than is kept: secrets are masked before the last cut, which takes half of one.
    message.data = message.data.map(|data| shortened(data, 4 * LOG_BYTES));
    Some(message)
}

/// A piece of JSON, or the beginning of its text where that is long.
pub fn shortened(data: Json, most: usize) -> Json {
    if data.as_str().len() <= most {
        return data;
    }
    Json::from(&cut(data.as_str().to_owned(), most).into())
}

/// The request that the server no longer wants an answer to, as the text of its id.
pub fn cancelled(params: &[u8]) -> Option<String> {
    let mut id = None;
    scan::members(params, |key, value| {
        if *key == *b"requestId" {
            id = std::str::from_utf8(value).ok().map(str::to_owned);
        }
    })
    .ok()?;
    id
}

/// The same where the request is one of ours: our ids are numbers, which some turn into texts.
pub fn cancelled_number(params: &[u8]) -> Option<u64> {
    cancelled(params)?.trim_matches('"').parse().ok()
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

pub(super) fn json(bytes: &[u8]) -> Option<Json> {
    Json::parse_bytes(bytes)
}

/// `serde_json` names a line and column of one tool's text, which nobody can look up.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests;
