//! Tool arguments that are repeated as HTTP headers (`x-mcp-header`), and the encoding of text as a
//! header value.
//!
//! Schemas are untrusted. A tool is rejected for HTTP if an annotation in its schema is invalid:
//! for example, if the header name is not a valid token, or if the annotation is at a place where
//! the schema alone does not determine the argument.
//!
//! Invariant: an argument or a name adds exactly its own header to a request, and nothing else.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Number, Value};

use crate::mcp::Json;
use crate::scan;
use crate::text::is_http_token;

const KEYWORD: &str = "x-mcp-header";
const HEADER_PREFIX: &str = "mcp-param-";
/// Maximum length of a header name, in bytes. Longer names are rejected.
const MAX_NAME_BYTES: usize = 128;
/// Maximum number of headers per tool. Servers and proxies reject requests with too many.
const MAX_HEADERS: usize = 64;
/// A schema with annotations and more JSON values and keys than this is rejected.
const MAX_SCHEMA_NODES: usize = 100_000;
/// Names are truncated to this length in messages.
const MAX_SHOWN_CHARS: usize = 40;

/// Keywords whose value is not a schema.
const NON_SCHEMA_KEYWORDS: [&str; 5] = ["default", "const", "enum", "examples", "example"];
/// Keywords whose value is an object with a schema in each member, under arbitrary names.
const SCHEMA_MAP_KEYWORDS: [&str; 6] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
];

/// The arguments of a tool that are repeated as headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeaderParams(Box<[HeaderParam]>);

#[derive(Clone, Debug, PartialEq)]
struct HeaderParam {
    /// The names of the properties that lead to the argument.
    path: Vec<String>,
    header: HeaderName,
}

impl HeaderParams {
    /// Finds the annotations in an input schema. The error says why the tool cannot be called over
    /// HTTP.
    pub fn from_schema(input_schema: &Json) -> Result<Self, String> {
        let text = input_schema.as_str().as_bytes();
        if !may_have_keyword(text) {
            return Ok(Self::default());
        }
        if scan::count_nodes(text) > MAX_SCHEMA_NODES {
            return Err(format!(
                "its schema has `{KEYWORD}` and more than {MAX_SCHEMA_NODES} JSON values"
            ));
        }
        let schema = input_schema
            .to_value()
            .map_err(|_| "its schema is nested too deep".to_owned())?;
        let mut walk = SchemaWalk::default();
        walk.visit(&schema, SchemaPosition::Root)?;
        Ok(Self(walk.found.into()))
    }

    /// Whether no argument is repeated as a header.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the headers for these arguments. An argument has no header if it is missing, null,
    /// an array, an object or a fraction.
    pub fn headers<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
    ) -> impl Iterator<Item = (HeaderName, HeaderValue)> + 'a {
        self.0.iter().filter_map(|param| {
            let (first, further) = param.path.split_first()?;
            let argument = further
                .iter()
                .try_fold(arguments.get(first)?, |object, key| object.get(key))?;
            let value = match argument {
                Value::String(text) => header_value(text),
                Value::Bool(true) => HeaderValue::from_static("true"),
                Value::Bool(false) => HeaderValue::from_static("false"),
                Value::Number(number) => header_value(&integer_text(number)?),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((param.header.clone(), value))
        })
    }
}

/// Whether the text of a schema may contain the keyword, possibly written with escapes. Most
/// schemas do not have the keyword and need not be parsed.
fn may_have_keyword(text: &[u8]) -> bool {
    if memchr::memmem::find(text, KEYWORD.as_bytes()).is_some() {
        return true;
    }
    // Escapes of the keyword's characters begin with `\u002`, `\u006` or `\u007`.
    memchr::memmem::find_iter(text, b"\\u00")
        .any(|at| matches!(text.get(at + 4), Some(b'2' | b'6' | b'7')))
}

/// Returns an integer in decimal digits, also if it is written like `3.0` or `1e3`. `None` for a
/// fraction.
fn integer_text(number: &Number) -> Option<String> {
    if number.is_i64() || number.is_u64() {
        return Some(number.to_string());
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    // Negative zero is sent as `0`.
    Some(format!("{:.0}", if value == 0.0 { 0.0 } else { value }))
}

/// Encodes text as a header value: unchanged if it is visible ASCII, otherwise as `=?base64?…?=`.
///
/// Empty text, text with a space at either end and text that looks encoded are encoded, too,
/// because servers and proxies would change or misread them.
pub fn header_value(text: &str) -> HeaderValue {
    const ENCODED_PREFIX: &[u8] = b"=?base64?";
    let bytes = text.as_bytes();
    let is_plain = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && !matches!(bytes.first(), None | Some(b' '))
        && bytes.last() != Some(&b' ');
    let looks_encoded = bytes
        .get(..ENCODED_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(ENCODED_PREFIX));
    let value = if is_plain && !looks_encoded {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::try_from(format!("=?base64?{}?=", STANDARD.encode(bytes)))
    };
    // Both are visible ASCII, so this does not fail.
    value.unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Where a subschema is in the schema of a tool.
#[derive(Clone, Copy)]
enum SchemaPosition<'a> {
    Root,
    /// A property that is reached only through `properties`, so that it describes one argument.
    Property(&'a PropertyPath<'a>),
    /// Anywhere else. Which argument the subschema describes depends on the arguments.
    Other,
}

/// A property and the properties around it, innermost first.
struct PropertyPath<'a> {
    name: &'a str,
    parent: Option<&'a PropertyPath<'a>>,
}

impl PropertyPath<'_> {
    /// The names from the outermost property to this one.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::iter::successors(Some(self), |property| property.parent)
            .map(|property| property.name.to_owned())
            .collect();
        names.reverse();
        names
    }
}

/// Walks a schema and collects the annotations.
#[derive(Default)]
struct SchemaWalk {
    found: Vec<HeaderParam>,
    headers: HashSet<HeaderName>,
}

impl SchemaWalk {
    /// Visits a subschema and everything inside it. The recursion is bounded because `serde_json`
    /// limits the depth of parsed JSON.
    fn visit(&mut self, schema: &Value, position: SchemaPosition<'_>) -> Result<(), String> {
        let members = match schema {
            Value::Object(members) => members,
            Value::Array(schemas) => {
                return schemas
                    .iter()
                    .try_for_each(|schema| self.visit(schema, SchemaPosition::Other));
            }
            _ => return Ok(()),
        };
        if let Some(name) = members.get(KEYWORD) {
            self.add(name, members.get("type"), position)?;
        }
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    self.visit_properties(properties, position)?;
                }
                (keyword, Value::Object(schemas)) if SCHEMA_MAP_KEYWORDS.contains(&keyword) => {
                    schemas
                        .values()
                        .try_for_each(|schema| self.visit(schema, SchemaPosition::Other))?;
                }
                (keyword, _) if NON_SCHEMA_KEYWORDS.contains(&keyword) => {}
                (_, value) => self.visit(value, SchemaPosition::Other)?,
            }
        }
        Ok(())
    }

    fn visit_properties(
        &mut self,
        properties: &Map<String, Value>,
        position: SchemaPosition<'_>,
    ) -> Result<(), String> {
        for (name, schema) in properties {
            let parent = match position {
                SchemaPosition::Root => None,
                SchemaPosition::Property(parent) => Some(parent),
                SchemaPosition::Other => {
                    self.visit(schema, SchemaPosition::Other)?;
                    continue;
                }
            };
            let path = PropertyPath { name, parent };
            self.visit(schema, SchemaPosition::Property(&path))?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &Value,
        schema_type: Option<&Value>,
        position: SchemaPosition<'_>,
    ) -> Result<(), String> {
        let SchemaPosition::Property(property) = position else {
            return Err(format!(
                "`{KEYWORD}` is only allowed on properties that `properties` alone leads to"
            ));
        };
        let path = property.names();
        let shown_path = shown(&path.join("."));
        let reject = |why: &str| Err(format!("`{KEYWORD}` of `{shown_path}` {why}"));
        let Some(name) = name.as_str() else {
            return reject("is not a string");
        };
        if !matches!(
            schema_type.and_then(Value::as_str),
            Some("string" | "integer" | "boolean")
        ) {
            return reject("is on an argument that is not a string, an integer or a boolean");
        }
        if !is_http_token(name) {
            return reject("is not a valid header name");
        }
        if name.len() > MAX_NAME_BYTES {
            return reject(&format!("is longer than {MAX_NAME_BYTES} bytes"));
        }
        let Ok(header) = HeaderName::try_from(format!("{HEADER_PREFIX}{name}")) else {
            return reject("is not a valid header name");
        };
        if !self.headers.insert(header.clone()) {
            return reject(&format!("is a duplicate: `{}`", shown(name)));
        }
        if self.found.len() == MAX_HEADERS {
            return reject(&format!("exceeds the maximum of {MAX_HEADERS} headers"));
        }
        self.found.push(HeaderParam { path, header });
        Ok(())
    }
}

/// Returns the beginning of an untrusted text for a message, without control characters.
fn shown(text: &str) -> String {
    let replace_control = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars()
        .take(MAX_SHOWN_CHARS)
        .map(replace_control)
        .collect()
}

#[cfg(test)]
mod tests;
