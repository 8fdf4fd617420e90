//! Renders a tool result for a model: one [`Block`] for each content block of the server.
//!
//! Invariant: every text is sanitized. All images and audio of one result together have at most
//! `Limits::result_media_bytes` bytes, and their data contains only base64 characters. A
//! description replaces an image or audio that violates this.

use std::borrow::Cow;

use serde::Deserialize;
use switchboard_wire::mcp::{
    CallToolResult, ContentBlock, Json, MediaContent, ResourceBody, ResourceLink,
};
use switchboard_wire::text::one_line;

use super::truncate::{LimitedText, truncate_texts};
use super::{
    Block, MAX_FIELD_BYTES, MAX_URI_BYTES, Output, ResultStore, base64, sanitize, sanitize_owned,
};
use crate::id::ServerName;
use crate::limits::Limits;

/// Renders a tool result. If its texts together exceed `Limits::result_text_bytes`, they are cut,
/// and the full text goes to `store`.
pub fn render_tool_result(
    result: CallToolResult,
    limits: &Limits,
    store: Option<&dyn ResultStore>,
) -> Output {
    render_tool_result_from(None, result, limits, store)
}

/// Renders a tool result as [`render_tool_result`] does. If `server` is `Some`, the descriptions of
/// resource links contain the server name, because a model needs that name to read the resource.
pub(crate) fn render_tool_result_from(
    server: Option<&ServerName>,
    result: CallToolResult,
    limits: &Limits,
    store: Option<&dyn ResultStore>,
) -> Output {
    let mut media_budget = limits.result_media_bytes;
    // Not `collect`: it would reuse the allocation of `result.content` and then reallocate to
    // shrink it, because a `ContentBlock` is larger than a `Block`.
    let mut blocks = Vec::with_capacity(result.content.len());
    let render = |block| render_block(block, server, &mut media_budget);
    blocks.extend(result.content.into_iter().map(render));
    // Servers usually repeat the structured content in a text block. If there is no text block, the
    // structured content is added as text, because a model sees only the blocks.
    let is_text = |block: &Block| matches!(block, Block::Text { .. });
    if let (false, Some(structured)) = (blocks.iter().any(is_text), &result.structured_content) {
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
    output.drop_large_structured(limits.result_text_bytes, store);
    output.truncate_text(limits.result_text_bytes, store);
    output
}

impl Output {
    /// Removes and stores structured content that is larger than `max_bytes`. Structured content is
    /// not cut, because a part of it would not be valid JSON.
    fn drop_large_structured(&mut self, max_bytes: usize, store: Option<&dyn ResultStore>) {
        let is_large = |json: &mut Json| json.as_str().len() > max_bytes;
        let Some(structured) = self.structured.take_if(is_large) else {
            return;
        };
        let size = structured.as_str().len();
        self.notes.push(format!(
            "structured content of {size} bytes was left out (limit `result_text_bytes`)"
        ));
        self.stored = store.and_then(|store| store.store(structured.as_str()).ok());
    }

    /// Truncates the texts of all blocks together to `max_bytes`. Keeps images and audio.
    fn truncate_text(&mut self, max_bytes: usize, store: Option<&dyn ResultStore>) {
        let texts: Vec<_> = self.blocks.iter().filter_map(LimitedText::new).collect();
        let Some(mut truncation) = truncate_texts(&texts, max_bytes, store) else {
            return;
        };
        truncation.apply(&mut self.blocks, |block| block);
        self.notes.extend(truncation.note);
        self.stored = truncation.stored.or(self.stored);
    }
}

/// Renders one block. `media_budget` is the number of bytes of base64 that this block and the
/// following blocks may still contain; it is reduced by the data of this block.
pub(super) fn render_block(
    block: ContentBlock,
    server: Option<&ServerName>,
    media_budget: &mut usize,
) -> Block {
    match block {
        ContentBlock::Text(content) => Block::Text {
            text: sanitize_owned(content.text),
        },
        ContentBlock::Image(content) => match take_media("image", content, media_budget) {
            Ok((data, mime_type)) => Block::Image { data, mime_type },
            Err(description) => description,
        },
        ContentBlock::Audio(content) => match take_media("audio", content, media_budget) {
            Ok((data, mime_type)) => Block::Audio { data, mime_type },
            Err(description) => description,
        },
        ContentBlock::ResourceLink(ref link) => Block::Described {
            description: describe_link(link, server),
            raw: raw_json(&block),
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
                raw: take_budget(content.resource.blob.as_deref(), media_budget)
                    .then(|| raw_json(&block))
                    .flatten(),
            },
        },
        ContentBlock::Unknown(raw) => Block::Described {
            description: describe_unknown(&raw),
            raw: Some(raw),
        },
        _ => Block::Described {
            description: "[content of an unknown type]".to_owned(),
            raw: raw_json(&block),
        },
    }
}

/// Returns the data and the MIME type of an image or audio. Returns a description as the error if
/// the data is not base64 or is larger than `media_budget`.
fn take_media(
    kind: &str,
    content: MediaContent,
    media_budget: &mut usize,
) -> Result<(String, String), Block> {
    let mime_type = one_line(&content.mime_type, MAX_FIELD_BYTES).into_owned();
    let describe = |problem: &str| Block::Described {
        description: format!("[{kind}: {mime_type}, {problem}]"),
        raw: None,
    };
    if !base64::is_base64(&content.data) {
        return Err(describe("omitted: the data is not valid base64"));
    }
    if !take_budget(Some(&content.data), media_budget) {
        let size = base64::decoded_len(&content.data);
        return Err(describe(&format!("omitted: {size} bytes exceed the limit")));
    }
    Ok((content.data, mime_type))
}

/// Subtracts the size of `data` from `budget`. If `budget` is too small, returns `false` and leaves
/// `budget` as it is.
fn take_budget(data: Option<&str>, budget: &mut usize) -> bool {
    let rest = budget.checked_sub(data.map_or(0, str::len));
    *budget = rest.unwrap_or(*budget);
    rest.is_some()
}

fn raw_json(block: &ContentBlock) -> Option<Json> {
    serde_json::value::to_raw_value(block).ok().map(Json::from)
}

fn describe_link(link: &ResourceLink, server: Option<&ServerName>) -> String {
    let server = server.map(|server| format!(" of server {server}"));
    let size = link.size.map(|size| format!("{size} bytes"));
    let details: Vec<Cow<'_, str>> = (link.mime_type.as_deref())
        .map(|mime| one_line(mime, MAX_FIELD_BYTES))
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
        one_line(&link.name, MAX_FIELD_BYTES),
        one_line(&link.uri, MAX_URI_BYTES),
        server.unwrap_or_default(),
        one_line(description, MAX_FIELD_BYTES),
    )
}

fn describe_resource(resource: &ResourceBody) -> String {
    let uri = one_line(&resource.uri, MAX_URI_BYTES);
    match (&resource.text, &resource.blob) {
        (Some(_), _) => format!("[resource <{uri}>]"),
        (None, Some(blob)) => {
            let mime = resource.mime_type.as_deref();
            let mime = one_line(mime.unwrap_or("unknown type"), MAX_FIELD_BYTES);
            let size = base64::decoded_len(blob);
            format!("[resource <{uri}> ({mime}, {size} bytes of binary data)]")
        }
        (None, None) => format!("[resource <{uri}> (empty)]"),
    }
}

/// Describes a block of a type that this crate does not know, by the type name and the size.
fn describe_unknown(raw: &Json) -> String {
    #[derive(Deserialize)]
    struct Tagged {
        r#type: String,
    }
    let size = raw.as_str().len();
    match serde_json::from_str::<Tagged>(raw.as_str()) {
        Ok(Tagged { r#type: kind }) => {
            format!(
                "[content of type {:?}, {size} bytes, cannot be shown]",
                one_line(&kind, MAX_FIELD_BYTES)
            )
        }
        Err(_) => format!("[content of unknown type, {size} bytes, cannot be shown]"),
    }
}
