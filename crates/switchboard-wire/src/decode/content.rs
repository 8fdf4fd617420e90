//! Decodes content blocks.
//!
//! Most results consist of plain text blocks, so [`content_blocks`] tries three decoders, the
//! fastest first. The first accepts only text blocks without further members. The second decodes
//! blocks of known types in one serde pass. The third decodes each block separately and keeps
//! unknown blocks as JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::InvalidMessage;
use crate::mcp::{
    ContentBlock, EmbeddedResource, Json, MediaContent, ResourceBody, ResourceLink, TextContent,
};
use crate::scan::{self, NotJson, Scanner};

/// The first blocks of an array.
#[derive(Default)]
pub(super) struct BlockList {
    pub(super) blocks: Vec<ContentBlock>,
    /// Number of further blocks in the array. They were not decoded.
    pub(super) left_out: usize,
}

/// Decodes at most `max_blocks` blocks of an array and counts the others.
pub(super) fn content_blocks(
    content: &[u8],
    max_blocks: usize,
) -> Result<BlockList, InvalidMessage> {
    if let Some(blocks) = plain_text_blocks(content, max_blocks) {
        return Ok(BlockList {
            blocks,
            left_out: 0,
        });
    }
    match known_blocks(content, max_blocks) {
        Ok(list) => Ok(list),
        Err(_) => blocks_one_by_one(content, max_blocks),
    }
}

/// Decodes the array if it has at most `max_blocks` blocks and each has only `type` and `text`.
fn plain_text_blocks(content: &[u8], max_blocks: usize) -> Option<Vec<ContentBlock>> {
    // Most results have one block.
    let mut blocks = Vec::with_capacity(1);
    let mut scanner = Scanner::rescan(content);
    let mut are_plain = true;
    let scanned = scanner.for_each_element(|block| {
        let (mut kind, mut text) = (None, None);
        block.members(|key, value| {
            are_plain &= match &*key {
                b"type" => kind.replace(value).is_none(),
                b"text" => text.replace(value).is_none(),
                _ => false,
            };
        })?;
        let is_text = are_plain && kind == Some(b"\"text\"") && blocks.len() < max_blocks;
        let text = text.filter(|_| is_text).and_then(scan::string_value);
        blocks.push(ContentBlock::text(text.ok_or(NotJson)?));
        Ok(())
    });
    (scanned.is_ok() && scanner.at_end()).then_some(blocks)
}

/// Decodes the array in one pass. Fails if any of the first `max_blocks` blocks has an unknown type
/// or is malformed.
fn known_blocks(content: &[u8], max_blocks: usize) -> serde_json::Result<BlockList> {
    let mut deserializer = serde_json::Deserializer::from_slice(content);
    let list = KnownBlocks { max_blocks }.deserialize(&mut deserializer)?;
    deserializer.end().map(|()| list)
}

/// Deserializes an array of blocks for [`known_blocks`].
struct KnownBlocks {
    max_blocks: usize,
}

impl<'de> DeserializeSeed<'de> for KnownBlocks {
    type Value = BlockList;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<BlockList, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for KnownBlocks {
    type Value = BlockList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of content blocks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<BlockList, A::Error> {
        let mut list = BlockList::default();
        while list.blocks.len() < self.max_blocks
            && let Some(raw) = elements.next_element()?
        {
            let block = known_block(raw);
            list.blocks
                .push(block.ok_or_else(|| A::Error::custom("unknown block type"))?);
        }
        while list.blocks.len() == self.max_blocks
            && elements.next_element::<IgnoredAny>()?.is_some()
        {
            list.left_out += 1;
        }
        Ok(list)
    }
}

fn blocks_one_by_one(content: &[u8], max_blocks: usize) -> Result<BlockList, InvalidMessage> {
    let mut list = BlockList::default();
    for element in scan::elements(content) {
        let element =
            element.map_err(|_| InvalidMessage::malformed("`content` is not an array"))?;
        if list.blocks.len() < max_blocks {
            list.blocks.push(content_block(element)?);
        } else {
            list.left_out += 1;
        }
    }
    Ok(list)
}

/// Decodes one block. A block of an unknown type, or a malformed block, is kept as JSON.
pub(super) fn content_block(bytes: &[u8]) -> Result<ContentBlock, InvalidMessage> {
    let known = serde_json::from_slice::<RawBlock<'_>>(bytes)
        .ok()
        .and_then(known_block);
    match known {
        Some(block) => Ok(block),
        None => Json::parse_bytes(bytes)
            .map(ContentBlock::Unknown)
            .ok_or_else(|| {
                InvalidMessage::malformed(if std::str::from_utf8(bytes).is_err() {
                    "a content block is not UTF-8"
                } else {
                    "a content block is not valid JSON"
                })
            }),
    }
}

/// Decodes a block if it is a link to a resource.
pub fn resource_link(bytes: &[u8]) -> Option<ResourceLink> {
    match content_block(bytes) {
        Ok(ContentBlock::ResourceLink(link)) => Some(link),
        _ => None,
    }
}

/// The members of all known block types, so that one serde pass decodes any of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBlock<'a> {
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
    resource: Option<RawResource>,
    annotations: Option<Json>,
    #[serde(rename = "_meta")]
    meta: Option<Json>,
}

/// The contents of a resource, as the server wrote them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawResource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<Json>,
}

impl From<RawResource> for ResourceBody {
    fn from(raw: RawResource) -> Self {
        Self {
            uri: raw.uri,
            mime_type: raw.mime_type,
            text: raw.text,
            blob: raw.blob,
            meta: raw.meta,
        }
    }
}

/// Returns `None` if the type is unknown or a required member is missing.
fn known_block(raw: RawBlock<'_>) -> Option<ContentBlock> {
    let RawBlock {
        annotations, meta, ..
    } = raw;
    Some(match &*raw.r#type {
        "text" => ContentBlock::Text(TextContent {
            text: raw.text?,
            annotations,
            meta,
        }),
        "image" => ContentBlock::Image(MediaContent {
            data: raw.data?,
            mime_type: raw.mime_type?,
            annotations,
            meta,
        }),
        "audio" => ContentBlock::Audio(MediaContent {
            data: raw.data?,
            mime_type: raw.mime_type?,
            annotations,
            meta,
        }),
        "resource_link" => ContentBlock::ResourceLink(ResourceLink {
            uri: raw.uri?,
            name: raw.name.unwrap_or_default(),
            title: raw.title,
            description: raw.description,
            mime_type: raw.mime_type,
            size: raw.size,
            annotations,
            meta,
        }),
        "resource" => ContentBlock::Resource(EmbeddedResource {
            resource: raw.resource?.into(),
            annotations,
            meta,
        }),
        _ => return None,
    })
}
