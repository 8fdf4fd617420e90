//! Renders tool results, resources and prompts for a model: sanitizes and truncates their texts.
//!
//! This module defines [`Output`] and [`Block`]; the submodules render. It does not check results
//! against the output schema of the tool: the call pipeline does that, and adds violations to
//! [`Output::notes`]. A result with `isError` is rendered like any other.
//!
//! Invariant: every rendered text is sanitized. All texts of one result together have at most
//! `Limits::result_text_bytes` bytes, plus one marker that gives the size of the full text.
//! [`Output::structured`] and the `raw` of [`Block::Described`] are meant for programs and stay as
//! the server sent them.

pub(crate) mod base64;
mod file_type;
mod prompt;
mod render;
mod resource;
mod result_store;
#[cfg(test)]
mod tests;
mod truncate;

use std::borrow::Cow;

use serde::Serialize;

pub use base64::decode_base64;
pub use file_type::FileType;
pub use prompt::{RenderedMessage, RenderedPrompt, render_prompt};
pub use render::render_tool_result;
pub(crate) use render::render_tool_result_from;
pub use resource::{RenderedPart, RenderedResource, render_resource};
pub use result_store::{
    DirectoryResultStore, InvalidResultHandle, MemoryResultStore, ResultHandle, ResultStore,
};
pub use switchboard_wire::text::{fit, for_terminal, sanitize};
pub use truncate::truncation_marker;

use switchboard_wire::decode;
use switchboard_wire::mcp::{Json, ResourceLink};

/// Maximum length of a rendered name, MIME type or description in bytes. Longer ones are cut.
const MAX_FIELD_BYTES: usize = 500;

/// Maximum length of a rendered URI in bytes. Longer URIs are cut.
const MAX_URI_BYTES: usize = 2_000;

/// The result of a tool, rendered for a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Output {
    /// The content blocks, in the order in which the server sent them.
    pub blocks: Vec<Block>,
    /// Whether the call failed: the server set `isError`, or [`Output::error`] created the output.
    pub is_error: bool,
    /// The structured content as the server sent it. `None` if the server sent none, or if it
    /// exceeds `Limits::result_text_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Json>,
    /// Remarks of the host, for example about content that was left out or that violates the output
    /// schema.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The handle of the full text that was cut, or of structured content that was left out. `None`
    /// if the output is complete, if there is no store, or if storing failed.
    #[serde(rename = "whole", skip_serializing_if = "Option::is_none")]
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
    /// Text: a text block, the text of an embedded resource, or structured content as JSON.
    Text {
        /// The sanitized text.
        text: String,
    },
    /// An image.
    Image {
        /// The data in base64.
        data: String,
        /// The MIME type that the server declares.
        mime_type: String,
    },
    /// Audio.
    Audio {
        /// The data in base64.
        data: String,
        /// The MIME type that the server declares.
        mime_type: String,
    },
    /// A one-line description in place of content that is not shown to a model, such as a resource
    /// link, binary data or a block of an unknown type.
    #[serde(rename = "other")]
    Described {
        /// The description, in one line.
        description: String,
        /// The block as the server sent it. `None` for images and audio that were left out, and for
        /// binary data beyond `Limits::result_media_bytes`.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Json>,
    },
}

impl Output {
    /// Creates an output with one text block. The text is not sanitized.
    pub fn text(text: impl Into<String>) -> Self {
        Self::blocks(vec![Block::Text { text: text.into() }])
    }

    /// Creates an output with these blocks.
    pub fn blocks(blocks: Vec<Block>) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// Creates an output with `is_error` and one text block. Sanitizes the text.
    pub fn error(text: impl AsRef<str>) -> Self {
        Self {
            is_error: true,
            ..Self::text(sanitize(text.as_ref()))
        }
    }

    /// Joins the texts of all blocks by line ends. Images and audio are replaced by a description
    /// of their type and size.
    pub fn to_text(&self) -> String {
        let texts: Vec<_> = self.blocks.iter().map(Block::to_text).collect();
        texts.join("\n")
    }

    /// The resource links in the output, as the server sent them. To read a linked resource, call
    /// [`Host::read_resource`](crate::Host::read_resource) with the server that sent the output.
    /// Links in blocks that truncation removed are not returned.
    pub fn links(&self) -> Vec<ResourceLink> {
        let raw = self.blocks.iter().filter_map(|block| match block {
            Block::Described { raw, .. } => raw.as_ref(),
            _ => None,
        });
        raw.filter_map(|raw| decode::resource_link(raw.as_str().as_bytes()))
            .collect()
    }
}

impl Block {
    /// The text that counts toward `Limits::result_text_bytes`. `None` for images and audio.
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
}

fn describe_media(kind: &str, mime_type: &str, data: &str) -> String {
    format!("[{kind}: {mime_type}, {} bytes]", base64::decoded_len(data))
}

/// Sanitizes a text. Returns the same allocation if there is nothing to remove.
fn sanitize_owned(text: String) -> String {
    let changed = match sanitize(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(changed) => Some(changed),
    };
    changed.unwrap_or(text)
}
