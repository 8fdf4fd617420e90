//! What a model is given of a tool's answer: clean, bounded, every kind of block put into words.
//!
//! Nothing here judges whether an answer is true or fits its schema; the caller adds such findings
//! to [`Output::notes`]. A tool that failed is presented like one that did not.
//!
//! Invariant: every text in an [`Output`] went through [`sanitize()`], and all of it together stays
//! within the budget plus one marker that says what is missing. Only [`Output::structured`] and
//! [`Block::Described`]'s `raw` are as the server sent them: data for programs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::ServerName;
use crate::limits::Limits;
use crate::mcp::{CallToolResult, ContentBlock, Json, MediaContent, ResourceBody, ResourceLink};
use crate::wire::decode;

pub(crate) mod base64;
mod file_type;
pub mod limit;
mod prompt;
mod resource;
pub mod result_store;
#[cfg(test)]
mod tests;

pub use base64::decode_base64;
pub use file_type::FileType;
pub use prompt::{RenderedMessage, RenderedPrompt, render_prompt};
pub use resource::{RenderedPart, RenderedResource, render_resource};
pub use result_store::{
    DirectoryResultStore, InvalidResultHandle, MemoryResultStore, ResultHandle, ResultStore,
};
pub(crate) use switchboard_wire::text::one_line as field;
pub use switchboard_wire::text::{for_terminal, sanitize};

/// How much of a name, a type or a description is shown, in bytes.
const FIELD_BYTES: usize = 500;

/// How much of an address is shown, in bytes.
const URI_BYTES: usize = 2_000;

/// A tool's answer as a model is given it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Output {
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// The tool says that it failed.
    pub is_error: bool,
    /// The same answer as data, as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Json>,
    /// What was found out about the answer that the server did not say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Under which handle the whole text is kept, when it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "whole")]
    pub stored: Option<ResultHandle>,
}

/// One block of an [`Output`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Block {
    /// Text.
    Text {
        /// The text, clean.
        text: String,
    },
    /// A picture.
    Image {
        /// The bytes in base64.
        data: String,
        /// What the server says the bytes are.
        mime_type: String,
    },
    /// Sound.
    Audio {
        /// The bytes in base64.
        data: String,
        /// What the server says the bytes are.
        mime_type: String,
    },
    /// Something a model cannot be given, in words.
    #[serde(rename = "other")]
    Described {
        /// What it is, in one line.
        description: String,
        /// The block as sent, where it is not too large.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Json>,
    },
}

impl Output {
    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::blocks(vec![Block::Text { text: text.into() }])
    }

    /// An answer of several blocks.
    pub fn blocks(blocks: Vec<Block>) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// A failure in words, made safe to show.
    pub fn error(text: impl AsRef<str>) -> Self {
        Self {
            is_error: true,
            ..Self::text(sanitize(text.as_ref()))
        }
    }

    /// All of it as one string: texts as they are, other blocks in words, a line end between blocks.
    pub fn to_text(&self) -> String {
        let texts: Vec<_> = self.blocks.iter().map(Block::to_text).collect();
        texts.join("\n")
    }

    /// The links to resources in it, as the server sent them, to be followed with
    /// [`Host::read_resource_raw`](crate::Host::read_resource_raw) of the same server. Links beyond the
    /// budget are not among them.
    pub fn links(&self) -> Vec<ResourceLink> {
        let raw = self.blocks.iter().filter_map(|block| match block {
            Block::Described { raw, .. } => raw.as_ref(),
            _ => None,
        });
        raw.filter_map(|raw| decode::resource_link(raw.as_str().as_bytes()))
            .collect()
    }

    /// Half of a piece of data is no data: what is too long goes, and is kept whole.
    fn drop_structured_beyond(&mut self, budget: usize, result_store: Option<&dyn ResultStore>) {
        let Some(structured) = self.structured.take_if(|json| json.as_str().len() > budget) else {
            return;
        };
        let size = structured.as_str().len();
        self.notes.push(format!(
            "structured content of {size} bytes was left out (limit `result_text_bytes`)"
        ));
        self.stored =
            result_store.and_then(|result_store| result_store.store(structured.as_str()).ok());
    }

    /// Cuts the text of all blocks together to `budget` bytes. Pictures and sounds stay.
    fn cut_to(&mut self, budget: usize, result_store: Option<&dyn ResultStore>) {
        let texts = self.blocks.iter().filter_map(Block::as_text);
        let total = texts.clone().map(|text| text.len() + 1).sum::<usize>();
        let total = total.saturating_sub(1);
        if total <= budget {
            return;
        }
        let texts: Vec<&str> = texts.collect();
        match result_store.map(|result_store| result_store.store(&texts.join("\n"))) {
            Some(Ok(handle)) => self.stored = Some(handle),
            Some(Err(error)) => self
                .notes
                .push(format!("the whole result could not be kept: {error}")),
            None => {}
        }
        self.drop_text_beyond(budget, total);
    }

    fn drop_text_beyond(&mut self, budget: usize, total: usize) {
        let whole = self.stored;
        // Up to where the joined text is shown, and whether the end of it was reached.
        let (mut shown, mut is_cut) = (None::<usize>, false);
        self.blocks.retain_mut(|block| {
            let Some(text) = block.as_text() else {
                return true;
            };
            if is_cut {
                return false;
            }
            let start = shown.map_or(0, |shown| shown + 1);
            let room = budget.saturating_sub(start);
            if start <= budget && text.len() <= room {
                shown = Some(start + text.len());
                return true;
            }
            is_cut = true;
            let before = shown.unwrap_or_default();
            *block = block.cut(room, |part| {
                let shown = if part == 0 { before } else { start + part };
                limit::marker(total, shown, whole.as_ref())
            });
            true
        });
    }
}

impl Block {
    /// What of it counts as text.
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Described { description, .. } => Some(description),
            Self::Image { .. } | Self::Audio { .. } => None,
        }
    }

    fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text { text } => Cow::Borrowed(text),
            Self::Described { description, .. } => Cow::Borrowed(description),
            Self::Image { data, mime_type } => Cow::Owned(describe_media("image", mime_type, data)),
            Self::Audio { data, mime_type } => Cow::Owned(describe_media("audio", mime_type, data)),
        }
    }

    /// The block in which the text ends: the part of it that fits, and the marker. A description
    /// goes as a whole.
    fn cut(&self, room: usize, marker: impl FnOnce(usize) -> String) -> Self {
        let part = match self {
            Self::Text { text } => limit::fit(text, room),
            _ => "",
        };
        let line_end = if part.is_empty() || part.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let text = [part, line_end, &marker(part.len())].concat();
        Self::Text { text }
    }
}

/// Turns an answer into what a model is given. Text beyond the budget is cut, and kept by `result_store`.
pub fn render_tool_result(
    result: CallToolResult,
    limits: &Limits,
    result_store: Option<&dyn ResultStore>,
) -> Output {
    render_tool_result_from(None, result, limits, result_store)
}

/// The same, of a server whose name is needed to follow the links in the answer.
pub(crate) fn render_tool_result_from(
    server: Option<&ServerName>,
    result: CallToolResult,
    limits: &Limits,
    result_store: Option<&dyn ResultStore>,
) -> Output {
    let mut media_left = limits.result_media_bytes;
    // Not collected: that would take over the memory of the larger blocks and give a part of it back,
    // which no allocator does at hand.
    let mut blocks = Vec::with_capacity(result.content.len());
    let present = |block| present_block(block, server, &mut media_left);
    blocks.extend(result.content.into_iter().map(present));
    // Once: where there is text, it is the same data in the server's own words.
    let has_text = |block: &Block| matches!(block, Block::Text { .. });
    if let (false, Some(structured)) = (blocks.iter().any(has_text), &result.structured_content) {
        let text = sanitize(structured.as_str()).into_owned();
        blocks.push(Block::Text { text });
    }
    let mut output = Output {
        blocks,
        is_error: result.is_error,
        structured: result.structured_content,
        ..Output::default()
    };
    if result.blocks_left_out > 0 {
        output.notes.push(format!(
            "{} more blocks were left out (limit `content_blocks`)",
            result.blocks_left_out
        ));
    }
    output.drop_structured_beyond(limits.result_text_bytes, result_store);
    output.cut_to(limits.result_text_bytes, result_store);
    output
}

fn present_block(
    block: ContentBlock,
    server: Option<&ServerName>,
    media_left: &mut usize,
) -> Block {
    match block {
        ContentBlock::Text(content) => Block::Text {
            text: clean(content.text),
        },
        ContentBlock::Image(content) => match carry_media("image", content, media_left) {
            Ok((data, mime_type)) => Block::Image { data, mime_type },
            Err(described) => described,
        },
        ContentBlock::Audio(content) => match carry_media("audio", content, media_left) {
            Ok((data, mime_type)) => Block::Audio { data, mime_type },
            Err(described) => described,
        },
        ContentBlock::ResourceLink(ref link) => Block::Described {
            description: describe_link(link, server),
            raw: as_sent(&block),
        },
        ContentBlock::Resource(ref content) => match &content.resource.text {
            Some(text) => Block::Text {
                text: format!(
                    "{}\n{}",
                    describe_resource(&content.resource),
                    sanitize(text)
                ),
            },
            None => Block::Described {
                description: describe_resource(&content.resource),
                raw: take_room(content.resource.blob.as_deref(), media_left)
                    .then(|| as_sent(&block))
                    .flatten(),
            },
        },
        ContentBlock::Unknown(raw) => Block::Described {
            description: describe_unknown(&raw),
            raw: Some(raw),
        },
    }
}

/// The media's data and type, or a description in their place.
fn carry_media(
    kind: &str,
    content: MediaContent,
    media_left: &mut usize,
) -> Result<(String, String), Block> {
    let mime_type = field(&content.mime_type, FIELD_BYTES).into_owned();
    let describe = |problem: &str| Block::Described {
        description: format!("[{kind}: {mime_type}, {problem}]"),
        raw: None,
    };
    if !base64::is_base64(&content.data) {
        return Err(describe("not handed over: its data is not base64"));
    }
    if !take_room(Some(&content.data), media_left) {
        let size = base64::decoded_len(&content.data);
        return Err(describe(&format!(
            "not handed over: {size} bytes are too many"
        )));
    }
    Ok((content.data, mime_type))
}

fn take_room(data: Option<&str>, left: &mut usize) -> bool {
    let rest = left.checked_sub(data.map_or(0, str::len));
    *left = rest.unwrap_or(*left);
    rest.is_some()
}

fn as_sent(block: &ContentBlock) -> Option<Json> {
    serde_json::value::to_raw_value(block).ok().map(Json::from)
}

fn describe_media(kind: &str, mime_type: &str, data: &str) -> String {
    format!("[{kind}: {mime_type}, {} bytes]", base64::decoded_len(data))
}

/// With all that it takes to follow it: the address, and whom to ask for it.
fn describe_link(link: &ResourceLink, server: Option<&ServerName>) -> String {
    let server = server.map(|server| format!(" of server {server}"));
    let size = link.size.map(|size| format!("{size} bytes"));
    let details: Vec<Cow<'_, str>> = (link.mime_type.as_deref())
        .map(|mime| field(mime, FIELD_BYTES))
        .into_iter()
        .chain(size.map(Cow::Owned))
        .collect();
    let details = match details.as_slice() {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    };
    let description = link.description.as_deref().unwrap_or_default();
    let colon = if description.is_empty() { "" } else { ": " };
    format!(
        "[resource link: {} <{}>{}{details}{colon}{}]",
        field(&link.name, FIELD_BYTES),
        field(&link.uri, URI_BYTES),
        server.unwrap_or_default(),
        field(description, FIELD_BYTES),
    )
}

fn describe_resource(resource: &ResourceBody) -> String {
    let uri = field(&resource.uri, URI_BYTES);
    match (&resource.text, &resource.blob) {
        (Some(_), _) => format!("[resource <{uri}>]"),
        (None, Some(blob)) => {
            let mime = resource.mime_type.as_deref();
            let mime = field(mime.unwrap_or("unknown type"), FIELD_BYTES);
            let size = base64::decoded_len(blob);
            format!("[resource <{uri}> ({mime}, {size} bytes of binary data)]")
        }
        (None, None) => format!("[resource <{uri}> (empty)]"),
    }
}

fn describe_unknown(raw: &Json) -> String {
    #[derive(Deserialize)]
    struct Kind {
        r#type: String,
    }
    let size = raw.as_str().len();
    match serde_json::from_str::<Kind>(raw.as_str()) {
        Ok(Kind { r#type: kind }) => {
            format!(
                "[content of type {:?}, {size} bytes, cannot be shown]",
                field(&kind, FIELD_BYTES)
            )
        }
        Err(_) => format!("[content of unknown type, {size} bytes, cannot be shown]"),
    }
}

/// The text itself where nothing has to go.
fn clean(text: String) -> String {
    let changed = match sanitize(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(changed) => Some(changed),
    };
    changed.unwrap_or(text)
}
