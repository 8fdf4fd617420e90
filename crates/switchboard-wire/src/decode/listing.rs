//! Pages of what a server has: tools, resources, templates, prompts.
//!
//! One malformed item is left out and told; it does not take the others with it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::{Freshness, cache_hint, parse, scan, without_place};
use crate::jsonrpc::{Answer, InvalidMessage};
use crate::mcp::{
    Json, Prompt, PromptArgument, Resource, ResourceTemplate, TaskSupport, ToolAnnotations,
    ToolDefinition,
};

/// The longest name; the protocol suggests 128 for those of tools.
const NAME_BYTES: usize = 1024;
/// The longest address.
const URI_BYTES: usize = 64 * 1024;
/// How many arguments of one prompt are kept.
const ARGUMENTS: usize = 256;
/// How many of the items that could not be used are told.
const LEFT_OUT: usize = 100;

/// One page of a listing.
#[derive(Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub left_out: Vec<LeftOut>,
    /// `Some("")` is a cursor; only an absent one ends the list.
    pub next_cursor: Option<String>,
    /// There was more on it than was asked for.
    pub is_cut: bool,
    /// How large the page was.
    pub bytes: usize,
    /// How long it is good for.
    pub freshness: Freshness,
}

impl<T> Page<T> {
    /// All there is.
    pub fn only(items: Vec<T>) -> Self {
        Self {
            items,
            left_out: Vec::new(),
            next_cursor: None,
            is_cut: false,
            bytes: 0,
            freshness: Freshness::default(),
        }
    }
}

/// An item of a list that could not be used, or not in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The item's name, or its place in the list.
    pub what: String,
    pub why: String,
}

/// What an item is if it can be used; else its name, if it has one, and why not. What is wrong but
/// bearable is noted.
pub type Item<T> = fn(&[u8], &mut Vec<LeftOut>) -> Result<T, (Option<String>, String)>;

/// Decodes one page, and of it no more than `most` items, which stand under `key`.
pub fn page<T>(
    answer: &Answer,
    key: &str,
    most: usize,
    item: Item<T>,
) -> Result<Page<T>, InvalidMessage> {
    let mut page = Page::only(Vec::new());
    page.bytes = answer.text.len();
    let mut list = None;
    answer.members(|name, value| match name {
        b"ttlMs" => page.freshness.ttl = cache_hint::ttl(value),
        b"cacheScope" => page.freshness.scope = cache_hint::scope(value),
        b"nextCursor" if value != b"null" => match parse(value) {
            Some(cursor) => page.next_cursor = Some(cursor),
            None => page.left_out.push(LeftOut {
                what: "list".to_owned(),
                why: "the cursor of the next page is not a string".to_owned(),
            }),
        },
        name if name == key.as_bytes() => list = Some(value),
        _ => {}
    })?;
    let list = list.ok_or_else(|| InvalidMessage::malformed(format!("no `{key}` in it")))?;
    for (index, element) in scan::elements(list).enumerate() {
        let element =
            element.map_err(|_| InvalidMessage::malformed(format!("`{key}` is not an array")))?;
        if index == most {
            page.is_cut = true;
            break;
        }
        match item(element, &mut page.left_out) {
            Ok(item) => page.items.push(item),
            Err((name, why)) => {
                let what = name.unwrap_or_else(|| format!("number {}", index + 1));
                page.left_out.push(LeftOut { what, why });
            }
        }
        page.left_out.truncate(LEFT_OUT);
    }
    Ok(page)
}

impl<'de> Deserialize<'de> for ToolDefinition {
    /// Reads a tool as tolerantly as if its server had listed it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        tool(raw.as_str().as_bytes(), &mut Vec::new())
            .map_err(|(_, why)| serde::de::Error::custom(why))
    }
}

/// One tool of a listing; what is wrong but bearable is noted.
pub fn tool(
    bytes: &[u8],
    notes: &mut Vec<LeftOut>,
) -> Result<ToolDefinition, (Option<String>, String)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct Written {
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
    let written: Written =
        serde_json::from_slice(bytes).map_err(|error| (name_of(bytes), without_place(&error)))?;
    let name = written
        .name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| (None, "it has no name".to_owned()))?;
    if name.len() > NAME_BYTES {
        return Err((None, format!("its name is longer than {NAME_BYTES} bytes")));
    }
    let Some(input_schema) = written.input_schema else {
        return Err((Some(name), "it has no `inputSchema`".to_owned()));
    };
    let annotations = match written.annotations {
        None => ToolAnnotations::default(),
        Some(raw) => parse(raw.as_str().as_bytes()).unwrap_or_else(|| {
            let why = "its annotations are malformed and were ignored".to_owned();
            notes.push(LeftOut {
                what: name.clone(),
                why,
            });
            ToolAnnotations::default()
        }),
    };
    let mut tool = ToolDefinition::new(name, input_schema).annotations(annotations);
    tool.title = written.title;
    tool.description = written.description;
    tool.output_schema = written.output_schema;
    tool.task_support = written
        .execution
        .map_or(TaskSupport::Forbidden, |raw| task_support(&raw));
    tool.meta = written.meta;
    Ok(tool)
}

/// What is not understood goes without tasks.
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

fn name_of(bytes: &[u8]) -> Option<String> {
    let mut name = None;
    let _ = scan::members(bytes, |key, value| {
        if *key == *b"name" {
            name = parse(value);
        }
    });
    name
}

/// One resource of a listing.
pub fn resource(bytes: &[u8], _: &mut Vec<LeftOut>) -> Result<Resource, (Option<String>, String)> {
    let mut resource: Resource = written(bytes)?;
    let uri = usable(&resource.uri, "`uri`", URI_BYTES)?;
    if resource.name.is_empty() {
        resource.name = uri;
    }
    Ok(resource)
}

/// One template of a listing.
pub fn resource_template(
    bytes: &[u8],
    _: &mut Vec<LeftOut>,
) -> Result<ResourceTemplate, (Option<String>, String)> {
    let mut template: ResourceTemplate = written(bytes)?;
    let uri = usable(&template.uri_template, "`uriTemplate`", URI_BYTES)?;
    if template.name.is_empty() {
        template.name = uri;
    }
    Ok(template)
}

/// One prompt of a listing.
pub fn prompt(bytes: &[u8], notes: &mut Vec<LeftOut>) -> Result<Prompt, (Option<String>, String)> {
    let mut prompt: Prompt = written(bytes)?;
    let name = usable(&prompt.name, "name", NAME_BYTES)?;
    let named =
        |argument: &PromptArgument| !argument.name.is_empty() && argument.name.len() <= NAME_BYTES;
    let count = prompt.arguments.len();
    prompt.arguments.retain(named);
    prompt.arguments.truncate(ARGUMENTS);
    if prompt.arguments.len() < count {
        let why = "some of its arguments cannot be used and were left out".to_owned();
        notes.push(LeftOut { what: name, why });
    }
    Ok(prompt)
}

fn written<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, (Option<String>, String)> {
    serde_json::from_slice(bytes).map_err(|error| (name_of(bytes), without_place(&error)))
}

/// What an item is known by, if it can serve for that.
fn usable(text: &str, what: &str, most: usize) -> Result<String, (Option<String>, String)> {
    match text.len() {
        0 => Err((None, format!("it has no {what}"))),
        length if length > most => Err((None, format!("its {what} is longer than {most} bytes"))),
        _ => Ok(text.to_owned()),
    }
}
