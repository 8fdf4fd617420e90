//! Decodes pages of listings: tools, resources, resource templates and prompts.
//!
//! A malformed item is skipped and reported; the other items of the page are kept.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::{CacheHint, InvalidMessage, cache_hint, parse};
use crate::jsonrpc::RawResult;
use crate::mcp::{
    Json, Prompt, PromptArgument, Resource, ResourceTemplate, TaskSupport, ToolAnnotations,
    ToolDefinition,
};
use crate::scan;

/// Tools, prompts and prompt arguments with longer names are skipped. For tools, the protocol
/// suggests at most 128 characters.
const MAX_NAME_BYTES: usize = 1024;
/// Items with longer URIs are skipped.
const MAX_URI_BYTES: usize = 64 * 1024;
/// Further arguments of a prompt are dropped.
const MAX_PROMPT_ARGUMENTS: usize = 256;
/// Maximum number of entries in [`Page::skipped`].
const MAX_REPORTED: usize = 100;

/// One page of a listing.
#[derive(Debug, PartialEq)]
pub struct Page<T> {
    /// The items that could be decoded.
    pub items: Vec<T>,
    /// Items that were skipped, or decoded only in part. At most 100. An invalid `nextCursor` is
    /// reported here, too, under the name `list`.
    pub skipped: Vec<SkippedItem>,
    /// The cursor of the next page. The empty string is a cursor, too; only `None` ends the
    /// listing.
    pub next_cursor: Option<String>,
    /// The page has more items than the caller's maximum. The items after this maximum are dropped.
    pub is_truncated: bool,
    /// Size of the page, in bytes.
    pub bytes: usize,
    /// How long the page may be cached.
    pub cache_hint: CacheHint,
}

impl<T> Page<T> {
    /// A page that is a whole listing.
    pub fn single(items: Vec<T>) -> Self {
        Self {
            items,
            skipped: Vec::new(),
            next_cursor: None,
            is_truncated: false,
            bytes: 0,
            cache_hint: CacheHint::default(),
        }
    }
}

/// An item of a listing that was skipped, or decoded only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedItem {
    /// The name of the item, or its position if it has no usable name.
    pub name: String,
    /// What is wrong with the item.
    pub reason: String,
}

/// Why an item was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidItem {
    /// The name, if the item has a usable one.
    name: Option<String>,
    reason: String,
}

impl InvalidItem {
    fn new(name: Option<String>, reason: impl Into<String>) -> Self {
        Self {
            name,
            reason: reason.into(),
        }
    }

    /// An item that is not JSON, or in which a member has the wrong type.
    fn from_json_error(bytes: &[u8], error: &serde_json::Error) -> Self {
        let text = error.to_string();
        // The line and column refer to the text of the item, which users cannot see.
        let reason = text.split(" at line ").next().unwrap_or(&text);
        Self::new(name_of(bytes), reason)
    }
}

/// Decodes one item. Defects that do not make the item unusable are added to the second argument.
pub type DecodeItem<T> = fn(&[u8], &mut Vec<SkippedItem>) -> Result<T, InvalidItem>;

/// Decodes one page, with at most `max_items` items from the array `key`.
pub fn page<T>(
    result: &RawResult,
    key: &str,
    max_items: usize,
    decode_item: DecodeItem<T>,
) -> Result<Page<T>, InvalidMessage> {
    let mut page = Page::single(Vec::new());
    page.bytes = result.text.len();
    let mut array = None;
    result.members(|name, value| match name {
        b"ttlMs" => page.cache_hint.ttl = cache_hint::ttl(value),
        b"cacheScope" => page.cache_hint.scope = cache_hint::scope(value),
        b"nextCursor" if value != b"null" => match parse(value) {
            Some(cursor) => page.next_cursor = Some(cursor),
            None => page.skipped.push(SkippedItem {
                name: "list".to_owned(),
                reason: "the cursor of the next page is not a string".to_owned(),
            }),
        },
        name if name == key.as_bytes() => array = Some(value),
        _ => {}
    })?;
    let array = array.ok_or_else(|| InvalidMessage::malformed(format!("no `{key}`")))?;
    for (index, element) in scan::elements(array).enumerate() {
        let element =
            element.map_err(|_| InvalidMessage::malformed(format!("`{key}` is not an array")))?;
        if index == max_items {
            page.is_truncated = true;
            break;
        }
        match decode_item(element, &mut page.skipped) {
            Ok(item) => page.items.push(item),
            Err(InvalidItem { name, reason }) => {
                let name = name.unwrap_or_else(|| format!("number {}", index + 1));
                page.skipped.push(SkippedItem { name, reason });
            }
        }
        page.skipped.truncate(MAX_REPORTED);
    }
    Ok(page)
}

impl<'de> Deserialize<'de> for ToolDefinition {
    /// Decodes a tool like an element of a `tools/list` result.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        tool(raw.as_str().as_bytes(), &mut Vec::new())
            .map_err(|invalid| serde::de::Error::custom(invalid.reason))
    }
}

/// Decodes one tool.
pub fn tool(bytes: &[u8], defects: &mut Vec<SkippedItem>) -> Result<ToolDefinition, InvalidItem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct RawTool {
        name: Option<String>,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        description: Option<String>,
        input_schema: Option<Json>,
        output_schema: Option<Json>,
        annotations: Option<Json>,
        execution: Option<Json>,
        #[serde(rename = "_meta")]
        meta: Option<Json>,
    }
    let raw: RawTool = deserialize_item(bytes)?;
    let name = raw
        .name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| InvalidItem::new(None, "it has no name"))?;
    if name.len() > MAX_NAME_BYTES {
        let reason = format!("its name is longer than {MAX_NAME_BYTES} bytes");
        return Err(InvalidItem::new(None, reason));
    }
    let Some(input_schema) = raw.input_schema else {
        return Err(InvalidItem::new(Some(name), "it has no `inputSchema`"));
    };
    let annotations = match raw.annotations {
        None => ToolAnnotations::default(),
        Some(raw) => parse(raw.as_str().as_bytes()).unwrap_or_else(|| {
            defects.push(SkippedItem {
                name: name.clone(),
                reason: "its annotations are malformed and were ignored".to_owned(),
            });
            ToolAnnotations::default()
        }),
    };
    let mut tool = ToolDefinition::new(name, input_schema).annotations(annotations);
    tool.title = raw.title;
    tool.description = raw.description;
    tool.output_schema = raw.output_schema;
    tool.task_support = raw
        .execution
        .map_or(TaskSupport::Forbidden, |execution| task_support(&execution));
    tool.meta = raw.meta;
    Ok(tool)
}

/// Decodes `execution`. Unknown values count as forbidden.
fn task_support(execution: &Json) -> TaskSupport {
    let mut support = TaskSupport::Forbidden;
    let _ = scan::members(execution.as_str().as_bytes(), |key, value| {
        if *key == *b"taskSupport" {
            support = match value {
                b"\"required\"" => TaskSupport::Required,
                b"\"optional\"" => TaskSupport::Optional,
                _ => TaskSupport::Forbidden,
            };
        }
    });
    support
}

/// Decodes one resource.
pub fn resource(bytes: &[u8], _: &mut Vec<SkippedItem>) -> Result<Resource, InvalidItem> {
    let mut resource: Resource = deserialize_item(bytes)?;
    let uri = validate_key(&resource.uri, "`uri`", MAX_URI_BYTES)?;
    if resource.name.is_empty() {
        resource.name = uri.to_owned();
    }
    Ok(resource)
}

/// Decodes one resource template.
pub fn resource_template(
    bytes: &[u8],
    _: &mut Vec<SkippedItem>,
) -> Result<ResourceTemplate, InvalidItem> {
    let mut template: ResourceTemplate = deserialize_item(bytes)?;
    let uri = validate_key(&template.uri_template, "`uriTemplate`", MAX_URI_BYTES)?;
    if template.name.is_empty() {
        template.name = uri.to_owned();
    }
    Ok(template)
}

/// Decodes one prompt.
pub fn prompt(bytes: &[u8], defects: &mut Vec<SkippedItem>) -> Result<Prompt, InvalidItem> {
    let mut prompt: Prompt = deserialize_item(bytes)?;
    validate_key(&prompt.name, "name", MAX_NAME_BYTES)?;
    let has_valid_name = |argument: &PromptArgument| {
        !argument.name.is_empty() && argument.name.len() <= MAX_NAME_BYTES
    };
    let count = prompt.arguments.len();
    prompt.arguments.retain(has_valid_name);
    prompt.arguments.truncate(MAX_PROMPT_ARGUMENTS);
    if prompt.arguments.len() < count {
        defects.push(SkippedItem {
            name: prompt.name.clone(),
            reason: "some of its arguments are invalid and were ignored".to_owned(),
        });
    }
    Ok(prompt)
}

fn deserialize_item<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, InvalidItem> {
    serde_json::from_slice(bytes).map_err(|error| InvalidItem::from_json_error(bytes, &error))
}

fn name_of(bytes: &[u8]) -> Option<String> {
    let mut name = None;
    let _ = scan::members(bytes, |key, value| {
        if *key == *b"name" {
            name = parse(value);
        }
    });
    name
}

/// Checks that the text that identifies an item is neither empty nor too long.
fn validate_key<'a>(key: &'a str, what: &str, max_bytes: usize) -> Result<&'a str, InvalidItem> {
    match key.len() {
        0 => Err(InvalidItem::new(None, format!("it has no {what}"))),
        length if length > max_bytes => {
            let reason = format!("its {what} is longer than {max_bytes} bytes");
            Err(InvalidItem::new(None, reason))
        }
        _ => Ok(key),
    }
}
