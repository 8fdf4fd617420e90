//! The text of structured content for a model.
//!
//! Invariant: the text contains no large base64 data, and no data that a content block of the same
//! result already contains as image, audio or binary resource. A description replaces such data.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_wire::mcp::{ContentBlock, Json};
use switchboard_wire::schema::is_checkable;

use super::{base64, sanitize};
use crate::limits::Limits;

/// Strings that look like base64 and have at least this many bytes are binary data. Shorter ones
/// can be keys, hashes or signatures, which a model may need.
const MIN_BINARY_BYTES: usize = 1_024;

/// Returns structured content as sanitized text, in which descriptions replace binary data.
/// `blocks` are the content blocks of the same result.
pub(super) fn text_of_structured(
    structured: &Json,
    blocks: &[ContentBlock],
    limits: &Limits,
) -> String {
    let text = structured.as_str();
    let data: HashSet<&str> = blocks.iter().filter_map(binary_data).collect();
    let repeats_data = data.iter().any(|data| text.contains(*data));
    if !repeats_data && !may_contain_binary(text) {
        return sanitize(text).into_owned();
    }
    let unreadable = || format!("[structured content of {} bytes, not shown]", text.len());
    if !is_checkable(structured, limits.json_tree_nodes) {
        return unreadable();
    }
    let Ok(mut value) = structured.to_value() else {
        return unreadable();
    };
    if describe_binary(&mut value, &data) {
        return sanitize(&value.to_string()).into_owned();
    }
    sanitize(text).into_owned()
}

/// Whether a string in JSON text can be large base64 data. Faster than parsing: base64 contains no
/// quotation marks, so such a string is a long gap between two of them. A gap between two strings
/// begins with a separator.
fn may_contain_binary(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let Some(gap_length) = memchr::memchr(b'"', rest) {
        let (gap, after) = rest.split_at(gap_length);
        let begins_string = gap
            .first()
            .is_some_and(|byte| !b",:]} \t\r\n".contains(byte));
        if gap_length >= MIN_BINARY_BYTES && begins_string {
            return true;
        }
        rest = after.get(1..).unwrap_or_default();
    }
    false
}

/// The base64 data of an image, audio or binary resource.
fn binary_data(block: &ContentBlock) -> Option<&str> {
    let data = match block {
        ContentBlock::Image(content) | ContentBlock::Audio(content) => &content.data,
        ContentBlock::Resource(content) => content.resource.blob.as_ref()?,
        _ => return None,
    };
    Some(data.as_str()).filter(|data| !data.is_empty())
}

/// Replaces every binary string by a description. Returns whether there was one.
fn describe_binary(value: &mut Value, data: &HashSet<&str>) -> bool {
    match value {
        Value::String(text) => {
            let Some(description) = description_of(text, data) else {
                return false;
            };
            *text = description;
            true
        }
        // Not `any`, which would stop at the first binary string.
        Value::Array(items) => {
            let described = items.iter_mut().map(|item| describe_binary(item, data));
            described.filter(|described| *described).count() > 0
        }
        Value::Object(members) => {
            let members = members.values_mut();
            let described = members.map(|member| describe_binary(member, data));
            described.filter(|described| *described).count() > 0
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn description_of(text: &str, data: &HashSet<&str>) -> Option<String> {
    let base64 = match text.strip_prefix("data:") {
        Some(url) => url
            .split_once(";base64,")
            .map_or(text, |(_, base64)| base64),
        None => text,
    };
    let size = base64::decoded_len(base64);
    if data.contains(base64) {
        return Some(format!("[{size} bytes, the same data as in a block above]"));
    }
    let is_binary = base64.len() >= MIN_BINARY_BYTES && is_base64_text(base64);
    is_binary.then(|| format!("[{size} bytes of binary data, not shown]"))
}

/// Whether the text is base64, possibly with line ends. A long word or number has few different
/// characters, so it does not count.
fn is_base64_text(text: &str) -> bool {
    const MIN_DISTINCT: usize = 20;
    let distinct: HashSet<u8> = text.bytes().take(MIN_BINARY_BYTES).collect();
    distinct.len() >= MIN_DISTINCT && text.lines().all(base64::is_base64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard_wire::mcp::{MediaContent, ResourceBody};

    use super::*;

    /// Base64 of `size` bytes that do not repeat.
    fn base64_of(size: usize) -> String {
        let bytes: Vec<u8> = (0..size)
            .map(|at| u8::try_from(at * 31 % 251).unwrap())
            .collect();
        MediaContent::new(bytes, "image/png").data
    }

    fn text_of(structured: &Value, blocks: &[ContentBlock]) -> String {
        text_of_structured(&Json::from(structured), blocks, &Limits::default())
    }

    #[test]
    fn data_of_block_is_not_repeated() {
        for size in [3, 300, 100_000] {
            let data = base64_of(size);
            let same = format!("[{size} bytes, the same data as in a block above]");
            let blocks = [
                ContentBlock::Image(MediaContent::from_base64(data.as_str(), "image/png")),
                ContentBlock::resource(ResourceBody::bytes("file:///a", "other data")),
            ];
            let structured = json!({"content": [{"type": "image", "data": data}], "n": 1});
            assert_eq!(
                text_of(&structured, &blocks),
                json!({"content": [{"type": "image", "data": same}], "n": 1}).to_string()
            );
            let url = json!([format!("data:image/png;base64,{data}")]);
            assert_eq!(text_of(&url, &blocks), json!([same]).to_string());
        }
    }

    #[test]
    fn large_base64_is_described() {
        let data = base64_of(3_000);
        let lines = format!("{}\n{}\n", &data[..2_000], &data[2_000..]);
        for data in [data, lines] {
            let described = text_of(&json!({"png": data}), &[]);
            assert!(
                described.starts_with(r#"{"png":"[3000 bytes of "#)
                    || described.contains("bytes of binary data, not shown"),
                "{described}"
            );
        }
    }

    #[test]
    fn other_text_is_kept() {
        let hash = base64_of(64);
        let prose = "many words, ".repeat(500);
        for structured in [
            json!({"hash": hash}),
            json!([prose]),
            json!("x".repeat(5_000)),
            json!([1, null, true]),
        ] {
            assert_eq!(text_of(&structured, &[]), structured.to_string());
        }
    }
}
