//! Decodes pages of listings: tools, resources, resource templates and prompts.
//!
//! A malformed item is skipped and reported; the other items of the page are kept.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{CacheHint, InvalidMessage, cache_hint, parse};
use crate::jsonrpc::RawResult;
use crate::limits::FieldLimits;
use crate::mcp::{
    Json, Prompt, PromptArgument, Resource, ResourceTemplate, TaskSupport, ToolAnnotations,
    ToolDefinition,
};
use crate::scan;
use crate::text::truncate_marked;

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

/// Decodes one item. Defects that do not make the item unusable are added to the last argument.
pub type DecodeItem<T> = fn(&[u8], &FieldLimits, &mut Vec<SkippedItem>) -> Result<T, InvalidItem>;

/// Decodes one page, with at most `max_items` items from the array `key`.
pub fn page<T>(
    result: &RawResult,
    key: &str,
    max_items: usize,
    limits: &FieldLimits,
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
        match decode_item(element, limits, &mut page.skipped) {
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
        tool(
            raw.as_str().as_bytes(),
            &FieldLimits::default(),
            &mut Vec::new(),
        )
        .map_err(|invalid| serde::de::Error::custom(invalid.reason))
    }
}

/// Decodes one tool.
pub fn tool(
    bytes: &[u8],
    limits: &FieldLimits,
    defects: &mut Vec<SkippedItem>,
) -> Result<ToolDefinition, InvalidItem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct RawTool<'a> {
        name: Option<String>,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        description: Option<String>,
        // Borrowed, so that a value that is too large is not copied.
        #[serde(borrow)]
        input_schema: Option<&'a RawValue>,
        #[serde(borrow)]
        output_schema: Option<&'a RawValue>,
        #[serde(borrow)]
        annotations: Option<&'a RawValue>,
        #[serde(borrow)]
        execution: Option<&'a RawValue>,
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    let raw: RawTool<'_> = deserialize_item(bytes)?;
    let name = raw
        .name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| InvalidItem::new(None, "it has no name"))?;
    validate_key(&name, "name", limits.name_bytes)?;
    let Some(input_schema) = raw.input_schema else {
        return Err(InvalidItem::new(Some(name), "it has no `inputSchema`"));
    };
    let schema_bytes = limits.schema_bytes;
    if input_schema.get().len() > schema_bytes {
        let reason =
            format!("its `inputSchema` is larger than {schema_bytes} bytes (limit `schemaBytes`)");
        return Err(InvalidItem::new(Some(name), reason));
    }
    let mut fields = BoundedFields {
        name: &name,
        limits,
        defects,
    };
    let annotations = fields.annotations(raw.annotations);
    let mut tool = ToolDefinition::new(name.as_str(), Json::owned(input_schema.get()));
    tool.annotations = annotations;
    tool.title = fields.title(raw.title);
    tool.description = fields.description(raw.description);
    tool.output_schema = fields.json("outputSchema", raw.output_schema.map(RawValue::get));
    tool.task_support = raw.execution.map_or(TaskSupport::Forbidden, task_support);
    tool.meta = fields.json("_meta", raw.meta.map(RawValue::get));
    Ok(tool)
}

/// Applies the limits to the fields of one item, and reports what was truncated or dropped.
struct BoundedFields<'a> {
    /// The name of the item.
    name: &'a str,
    limits: &'a FieldLimits,
    defects: &'a mut Vec<SkippedItem>,
}

impl BoundedFields<'_> {
    fn report(&mut self, reason: String) {
        self.defects.push(SkippedItem {
            name: self.name.to_owned(),
            reason,
        });
    }

    fn title(&mut self, title: Option<String>) -> Option<String> {
        title.map(|title| truncate_marked(title, self.limits.name_bytes))
    }

    fn description(&mut self, text: Option<String>) -> Option<String> {
        let max_bytes = self.limits.description_bytes;
        let text = text?;
        if text.len() > max_bytes {
            self.report(format!(
                "its description was cut to {max_bytes} bytes (limit `descriptionBytes`)"
            ));
        }
        Some(truncate_marked(text, max_bytes))
    }

    /// Copies a JSON value. Drops it if it is too large.
    fn json(&mut self, member: &str, json: Option<&str>) -> Option<Json> {
        let json = json?;
        let max_bytes = self.limits.schema_bytes;
        if json.len() > max_bytes {
            self.report(format!(
                "its `{member}` is larger than {max_bytes} bytes (limit `schemaBytes`) and was \
                 ignored"
            ));
            return None;
        }
        Some(Json::owned(json))
    }

    fn annotations(&mut self, raw: Option<&RawValue>) -> ToolAnnotations {
        let Some(raw) = raw else {
            return ToolAnnotations::default();
        };
        let Some(mut annotations) = parse::<ToolAnnotations>(raw.get().as_bytes()) else {
            self.report("its annotations are malformed and were ignored".to_owned());
            return ToolAnnotations::default();
        };
        annotations.title = self.title(annotations.title);
        annotations
    }

    /// Bounds the fields that resources and resource templates have in common.
    fn bound_resource_fields(&mut self, fields: ResourceFields<'_>) {
        let ResourceFields {
            name,
            title,
            description,
            mime_type,
            annotations,
            meta,
        } = fields;
        *name = truncate_marked(std::mem::take(name), self.limits.name_bytes);
        *title = self.title(title.take());
        *description = self.description(description.take());
        *mime_type = self.title(mime_type.take());
        for (member, json) in [("annotations", annotations), ("_meta", meta)] {
            if json.as_ref().is_some_and(|json| self.is_too_large(json)) {
                *json = self.json(member, json.take().as_ref().map(Json::as_str));
            }
        }
    }

    fn is_too_large(&self, json: &Json) -> bool {
        json.as_str().len() > self.limits.schema_bytes
    }
}

/// The fields that resources and resource templates have in common.
struct ResourceFields<'a> {
    name: &'a mut String,
    title: &'a mut Option<String>,
    description: &'a mut Option<String>,
    mime_type: &'a mut Option<String>,
    annotations: &'a mut Option<Json>,
    meta: &'a mut Option<Json>,
}

/// Decodes `execution`. Unknown values count as forbidden.
fn task_support(execution: &RawValue) -> TaskSupport {
    let mut support = TaskSupport::Forbidden;
    let _ = scan::members(execution.get().as_bytes(), |key, value| {
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
pub fn resource(
    bytes: &[u8],
    limits: &FieldLimits,
    defects: &mut Vec<SkippedItem>,
) -> Result<Resource, InvalidItem> {
    let mut resource: Resource = deserialize_item(bytes)?;
    let uri = validate_key(&resource.uri, "`uri`", MAX_URI_BYTES)?;
    if resource.name.is_empty() {
        resource.name = uri.to_owned();
    }
    let mut fields = BoundedFields {
        name: &resource.uri,
        limits,
        defects,
    };
    fields.bound_resource_fields(ResourceFields {
        name: &mut resource.name,
        title: &mut resource.title,
        description: &mut resource.description,
        mime_type: &mut resource.mime_type,
        annotations: &mut resource.annotations,
        meta: &mut resource.meta,
    });
    Ok(resource)
}

/// Decodes one resource template.
pub fn resource_template(
    bytes: &[u8],
    limits: &FieldLimits,
    defects: &mut Vec<SkippedItem>,
) -> Result<ResourceTemplate, InvalidItem> {
    let mut template: ResourceTemplate = deserialize_item(bytes)?;
    let uri = validate_key(&template.uri_template, "`uriTemplate`", MAX_URI_BYTES)?;
    if template.name.is_empty() {
        template.name = uri.to_owned();
    }
    let mut fields = BoundedFields {
        name: &template.uri_template,
        limits,
        defects,
    };
    fields.bound_resource_fields(ResourceFields {
        name: &mut template.name,
        title: &mut template.title,
        description: &mut template.description,
        mime_type: &mut template.mime_type,
        annotations: &mut template.annotations,
        meta: &mut template.meta,
    });
    Ok(template)
}

/// Decodes one prompt.
pub fn prompt(
    bytes: &[u8],
    limits: &FieldLimits,
    defects: &mut Vec<SkippedItem>,
) -> Result<Prompt, InvalidItem> {
    let mut prompt: Prompt = deserialize_item(bytes)?;
    validate_key(&prompt.name, "name", limits.name_bytes)?;
    let has_valid_name = |argument: &PromptArgument| {
        !argument.name.is_empty() && argument.name.len() <= limits.name_bytes
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
    let mut fields = BoundedFields {
        name: &prompt.name,
        limits,
        defects,
    };
    prompt.title = fields.title(prompt.title);
    prompt.description = fields.description(prompt.description);
    prompt.meta = fields.json("_meta", prompt.meta.as_ref().map(Json::as_str));
    for argument in &mut prompt.arguments {
        argument.title = fields.title(argument.title.take());
        argument.description = fields.description(argument.description.take());
    }
    Ok(prompt)
}

fn deserialize_item<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, InvalidItem> {
    serde_json::from_slice(bytes).map_err(|error| InvalidItem::from_json_error(bytes, &error))
}

/// The name in an item that could not be decoded, truncated.
fn name_of(bytes: &[u8]) -> Option<String> {
    let mut name = None;
    let _ = scan::members(bytes, |key, value| {
        if *key == *b"name" {
            name = parse(value);
        }
    });
    name.map(|name| truncate_marked(name, FieldLimits::default().name_bytes))
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
