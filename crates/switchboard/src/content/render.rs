//! Renders a tool result for a model: one [`Block`] for each content block of the server.
//!
//! Binary data of an embedded resource is saved to a file, if the store can do that.
//!
//! Invariant: every text is sanitized. All images and audio of one result together have at most
//! `Limits::result_media_bytes` bytes, and their data contains only base64 characters. A
//! description replaces an image or audio that violates this.

use std::borrow::Cow;

use serde::Deserialize;
use switchboard_wire::mcp::{
    CallToolResult, ContentBlock, EmbeddedResource, Json, MediaContent, ResourceBody, ResourceLink,
};
use switchboard_wire::text::one_line;

use super::resource::{SavedBlob, save_blob};
use super::structured::text_of_structured;
use super::truncate::{LimitedText, truncate_texts};
use super::{Block, MAX_FIELD_BYTES, MAX_URI_BYTES, Output, ResultStore, base64, sanitize};
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
    let mut renderer = BlockRenderer::new(server, limits, store);
    let structured = result.structured_content;
    // Servers usually repeat the structured content in a text block. If there is no text block, the
    // structured content is added as text, because a model sees only the blocks.
    let is_text = |block: &ContentBlock| match block {
        ContentBlock::Text(_) => true,
        ContentBlock::Resource(content) => content.resource.text.is_some(),
        _ => false,
    };
    let structured_text = match &structured {
        Some(structured) if !result.content.iter().any(is_text) => {
            Some(text_of_structured(structured, &result.content, limits))
        }
        _ => None,
    };
    // Not `collect`: it would reuse the allocation of `result.content` and then reallocate to
    // shrink it, because a `ContentBlock` is larger than a `Block`.
    let mut blocks = Vec::with_capacity(result.content.len());
    blocks.extend(
        result
            .content
            .into_iter()
            .map(|block| renderer.render(block)),
    );
    blocks.extend(structured_text.map(Block::text));
    let mut output = Output {
        blocks,
        is_error: result.is_error,
        structured,
        notes: renderer.notes(),
        ..Output::default()
    };
    if result.blocks_left_out > 0 {
        output.notes.push(format!(
            "{} more blocks were left out (limit `contentBlocks`)",
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
            "structured content of {size} bytes was left out (limit `resultTextBytes`)"
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

/// Renders the blocks of one result or prompt, one after the other.
pub(super) struct BlockRenderer<'a> {
    server: Option<&'a ServerName>,
    store: Option<&'a dyn ResultStore>,
    /// The number of bytes of base64 that the following blocks may still contain.
    media_budget: usize,
    /// The number of files that were saved so far.
    files: usize,
    rendered: usize,
    /// The numbers of the blocks from which characters were removed. The first block is 1.
    sanitized: Vec<String>,
    notes: Vec<String>,
}

impl<'a> BlockRenderer<'a> {
    /// The number of blocks that a note about removed characters names.
    const MAX_NAMED_BLOCKS: usize = 10;

    pub(super) fn new(
        server: Option<&'a ServerName>,
        limits: &Limits,
        store: Option<&'a dyn ResultStore>,
    ) -> Self {
        Self {
            server,
            store,
            media_budget: limits.result_media_bytes,
            files: 0,
            rendered: 0,
            sanitized: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn render(&mut self, block: ContentBlock) -> Block {
        self.rendered += 1;
        match block {
            ContentBlock::Text(content) => Block::Text {
                text: self.clean(content.text),
                annotations: sanitized(content.annotations),
            },
            ContentBlock::Image(content) => match self.take_media("image", content) {
                Ok((data, mime_type, annotations)) => Block::Image {
                    data,
                    mime_type,
                    annotations,
                },
                Err(description) => Block::described(description),
            },
            ContentBlock::Audio(content) => match self.take_media("audio", content) {
                Ok((data, mime_type, annotations)) => Block::Audio {
                    data,
                    mime_type,
                    annotations,
                },
                Err(description) => Block::described(description),
            },
            ContentBlock::ResourceLink(link) => Block::ResourceLink {
                description: describe_link(&link, self.server),
                link: Box::new(link),
            },
            ContentBlock::Resource(content) => self.render_resource(content),
            ContentBlock::Unknown(raw) => Block::Described {
                description: describe_unknown(&raw),
                blob_saved_to: None,
                raw: Some(raw),
                annotations: None,
            },
            _ => Block::Described {
                description: "[content of an unknown type]".to_owned(),
                blob_saved_to: None,
                raw: raw_json(&block),
                annotations: None,
            },
        }
    }

    /// The notes about the blocks that were rendered.
    pub(super) fn notes(mut self) -> Vec<String> {
        if !self.sanitized.is_empty() {
            let more = if self.sanitized.len() > Self::MAX_NAMED_BLOCKS {
                " and others"
            } else {
                ""
            };
            self.sanitized.truncate(Self::MAX_NAMED_BLOCKS);
            let blocks = self.sanitized.join(", ");
            self.notes.push(format!(
                "escape sequences or invisible characters were removed from block {blocks}{more}"
            ));
        }
        self.notes
    }

    /// Sanitizes a text of the current block.
    fn clean(&mut self, text: String) -> String {
        let clean = match sanitize(&text) {
            Cow::Borrowed(_) => return text,
            Cow::Owned(clean) => clean,
        };
        // Other kinds of line ends become `\n`, which is worth no note.
        let with_line_ends = text.replace("\r\n", "\n").replace(['\r', '\u{85}'], "\n");
        if clean != with_line_ends && self.sanitized.len() <= Self::MAX_NAMED_BLOCKS {
            self.sanitized.push(self.rendered.to_string());
        }
        clean
    }

    /// Renders a resource in a result: its text, or the file that its binary data was saved to.
    fn render_resource(&mut self, mut content: EmbeddedResource) -> Block {
        let resource = &mut content.resource;
        let annotations = sanitized(content.annotations.clone());
        if let Some(text) = resource.text.take() {
            let uri = one_line(&resource.uri, MAX_URI_BYTES);
            return Block::Text {
                text: format!("[resource <{uri}>]\n{}", self.clean(text)),
                annotations,
            };
        }
        let saved = match (&resource.blob, self.store) {
            (Some(blob), Some(_)) => {
                let declared = resource.mime_type.as_deref();
                save_blob(blob, declared, &mut self.files, self.store).map(Some)
            }
            _ => Ok(None),
        };
        let number = self.rendered;
        let saved = saved.unwrap_or_else(|problem| {
            self.notes.push(format!("block {number}: {problem}"));
            None
        });
        if let Some(saved) = saved {
            let mismatch = saved.mismatch.as_ref();
            self.notes
                .extend(mismatch.map(|mismatch| format!("block {number}: {mismatch}")));
            return Block::Described {
                description: describe_saved(resource, &saved),
                blob_saved_to: Some(saved.path),
                raw: None,
                annotations,
            };
        }
        let fits = take_budget(resource.blob.as_deref(), &mut self.media_budget);
        Block::Described {
            description: describe_resource(resource),
            blob_saved_to: None,
            raw: fits
                .then(|| raw_json(&ContentBlock::Resource(content)))
                .flatten(),
            annotations,
        }
    }

    /// Returns the data, the MIME type and the annotations of an image or audio. Returns a
    /// description as the error if the data is not base64 or is larger than the media budget.
    fn take_media(
        &mut self,
        kind: &str,
        content: MediaContent,
    ) -> Result<(String, String, Option<Json>), String> {
        let mime_type = one_line(&content.mime_type, MAX_FIELD_BYTES).into_owned();
        let describe = |problem: &str| format!("[{kind}: {mime_type}, {problem}]");
        if !base64::is_base64(&content.data) {
            return Err(describe("omitted: the data is not valid base64"));
        }
        if !take_budget(Some(&content.data), &mut self.media_budget) {
            let size = base64::decoded_len(&content.data);
            return Err(describe(&format!("omitted: {size} bytes exceed the limit")));
        }
        Ok((content.data, mime_type, sanitized(content.annotations)))
    }
}

fn sanitized(annotations: Option<Json>) -> Option<Json> {
    annotations.map(|annotations| annotations.sanitized())
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

/// Describes a resource without text whose data was not saved.
fn describe_resource(resource: &ResourceBody) -> String {
    let uri = one_line(&resource.uri, MAX_URI_BYTES);
    match &resource.blob {
        Some(blob) => {
            let mime = resource.mime_type.as_deref();
            let mime = one_line(mime.unwrap_or("unknown type"), MAX_FIELD_BYTES);
            let size = base64::decoded_len(blob);
            format!("[resource <{uri}> ({mime}, {size} bytes of binary data)]")
        }
        None => format!("[resource <{uri}> (empty)]"),
    }
}

fn describe_saved(resource: &ResourceBody, saved: &SavedBlob) -> String {
    let uri = one_line(&resource.uri, MAX_URI_BYTES);
    let SavedBlob {
        path,
        size,
        mime_type,
        ..
    } = saved;
    let path = path.display();
    format!("[resource <{uri}> ({mime_type}, {size} bytes of binary data), saved to {path}]")
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
