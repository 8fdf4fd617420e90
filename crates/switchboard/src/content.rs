//! Renders tool results, resources and prompts for a model: sanitizes and truncates their texts.
//!
//! This module defines [`Output`] and [`Block`]; the submodules render. It does not check results
//! against the output schema of the tool: the call pipeline does that, and adds violations to
//! [`Output::notes`]. A result with `isError` is rendered like any other.
//!
//! Invariant: every rendered text is sanitized. All texts of one result together have at most
//! `Limits::result_text_bytes` bytes, plus one marker that gives the size of the full text.
//! Binary data never reaches a model as text. [`Output::structured`], the link of
//! [`Block::ResourceLink`] and the `raw` of [`Block::Described`] are meant for programs and stay as
//! the server sent them.

pub(crate) mod base64;
mod file_type;
mod prompt;
mod render;
mod resource;
mod result_store;
mod structured;
#[cfg(test)]
mod tests;
mod truncate;

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

pub use base64::decode_base64;
pub use file_type::FileType;
pub use prompt::{RenderedMessage, RenderedPrompt, render_prompt};
pub use render::render_tool_result;
pub(crate) use render::render_tool_result_from;
pub use resource::{RenderedPart, RenderedResource, render_resource};
pub use result_store::{
    DirectoryResultStore, InvalidResultHandle, MemoryResultStore, ResultHandle, ResultStore,
};
pub use switchboard_wire::text::{fit, for_terminal, quote_for_shell, sanitize};
pub use truncate::truncation_marker;

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

/// One block of an [`Output`]. `annotations` are what the server says about the audience and the
/// priority of the block, with sanitized texts.
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
        /// The annotations of the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<Json>,
    },
    /// An image.
    Image {
        /// The data in base64.
        data: String,
        /// The MIME type that the server declares.
        mime_type: String,
        /// The annotations of the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<Json>,
    },
    /// Audio.
    Audio {
        /// The data in base64.
        data: String,
        /// The MIME type that the server declares.
        mime_type: String,
        /// The annotations of the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<Json>,
    },
    /// A link to a resource of the server. Serialized as the link with sanitized texts.
    #[serde(rename = "resource_link")]
    ResourceLink {
        /// The description of the link for a model, in one line.
        #[serde(skip)]
        description: String,
        /// The link as the server sent it.
        #[serde(flatten, serialize_with = "serialize_link")]
        link: Box<ResourceLink>,
    },
    /// A one-line description in place of content that is not shown to a model, such as binary data
    /// or a block of an unknown type.
    #[serde(rename = "other")]
    Described {
        /// The description, in one line.
        description: String,
        /// The file that binary data was saved to.
        #[serde(skip_serializing_if = "Option::is_none")]
        blob_saved_to: Option<PathBuf>,
        /// The block as the server sent it. `None` for images and audio that were left out, and for
        /// binary data that was saved to a file or exceeds `Limits::result_media_bytes`. Serialized
        /// with sanitized texts.
        #[serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "serialize_sanitized"
        )]
        raw: Option<Json>,
        /// The annotations of the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<Json>,
    },
}

fn serialize_link<S: Serializer>(link: &ResourceLink, serializer: S) -> Result<S::Ok, S::Error> {
    link.sanitized().serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde requires this signature")]
fn serialize_sanitized<S: Serializer>(
    json: &Option<Json>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    json.as_ref().map(Json::sanitized).serialize(serializer)
}

impl Output {
    /// Creates an output with one text block. The text is not sanitized.
    pub fn text(text: impl Into<String>) -> Self {
        Self::blocks(vec![Block::text(text)])
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
        let links = self.blocks.iter().filter_map(|block| match block {
            Block::ResourceLink { link, .. } => Some(ResourceLink::clone(link)),
            _ => None,
        });
        links.collect()
    }
}

impl Block {
    /// Creates a text block without annotations. The text is not sanitized.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            annotations: None,
        }
    }

    /// Creates a description without further data.
    fn described(description: String) -> Self {
        Self::Described {
            description,
            blob_saved_to: None,
            raw: None,
            annotations: None,
        }
    }

    /// The text that counts toward `Limits::result_text_bytes`. `None` for images and audio.
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Described { description, .. } | Self::ResourceLink { description, .. } => {
                Some(description)
            }
            Self::Image { .. } | Self::Audio { .. } => None,
        }
    }

    fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text { text, .. } => Cow::Borrowed(text),
            Self::Described { description, .. } | Self::ResourceLink { description, .. } => {
                Cow::Borrowed(description)
            }
            Self::Image {
                data, mime_type, ..
            } => Cow::Owned(describe_media("image", mime_type, data)),
            Self::Audio {
                data, mime_type, ..
            } => Cow::Owned(describe_media("audio", mime_type, data)),
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
