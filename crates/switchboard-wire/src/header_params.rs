//! Arguments of a tool that go along as HTTP headers (`x-mcp-header`), and how text becomes the value
//! of a header.
//!
//! What a schema says is untrusted: a name that is no token, or that stands where it cannot be told
//! from the schema alone which argument is meant, makes the whole tool unusable over HTTP.
//! Invariant: no argument and no name can put anything into a request but one header of its own.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Number, Value};

use crate::mcp::Json;
use crate::scan;

const KEYWORD: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Longer names than this, in bytes, are refused.
const LONGEST_NAME: usize = 128;
/// More of them than this do not go through servers and proxies.
const MOST: usize = 64;
/// A schema with annotations that holds more JSON values than this is not looked through.
const MOST_NODES: usize = 100_000;
/// How much of a name is shown in a message.
const SHOWN: usize = 40;

/// Keywords of which the value is no schema, but an example of what a schema describes.
const PLAIN_VALUES: [&str; 5] = ["default", "const", "enum", "examples", "example"];
/// Keywords of which the members are schemas by names that somebody chose.
const BY_NAME: [&str; 6] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
];

/// Which arguments of a tool go along as headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeaderParams(Box<[HeaderParam]>);

#[derive(Clone, Debug, PartialEq)]
struct HeaderParam {
    /// The way to the argument, from object to object.
    path: Vec<String>,
    header: HeaderName,
}

impl HeaderParams {
    /// Finds them in the schema of a tool's arguments. The error says why the tool cannot be used.
    pub fn from_schema(input_schema: &Json) -> Result<Self, String> {
        let text = input_schema.as_str().as_bytes();
        if !may_be_annotated(text) {
            return Ok(Self::default());
        }
        if scan::count_nodes(text) > MOST_NODES {
            return Err(format!(
                "its schema has headers (`{KEYWORD}`) and more than {MOST_NODES} values"
            ));
        }
        let schema = input_schema
            .to_value()
            .map_err(|_| "its schema is nested too deep".to_owned())?;
        let mut search = Search::default();
        search.visit(&schema, Place::Root)?;
        Ok(Self(search.found.into()))
    }

    /// Whether nothing goes along.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers for these arguments. What is absent or null has none.
    pub fn headers<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
    ) -> impl Iterator<Item = (HeaderName, HeaderValue)> + 'a {
        self.0.iter().filter_map(|mirror| {
            let (first, further) = mirror.path.split_first()?;
            let argument = further
                .iter()
                .try_fold(arguments.get(first)?, |within, key| within.get(key))?;
            let value = match argument {
                Value::String(text) => header_value(text),
                Value::Bool(true) => HeaderValue::from_static("true"),
                Value::Bool(false) => HeaderValue::from_static("false"),
                Value::Number(number) => header_value(&decimal(number)?),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((mirror.header.clone(), value))
        })
    }
}

/// Whether the keyword may stand in a schema, however it is written. Most have none of it.
fn may_be_annotated(text: &[u8]) -> bool {
    if memchr::memmem::find(text, KEYWORD.as_bytes()).is_some() {
        return true;
    }
    // The same letters as escapes: `\u0078-mcp-header`.
    memchr::memmem::find_iter(text, b"\\u00")
        .any(|at| matches!(text.get(at + 4), Some(b'2' | b'6' | b'7')))
}

/// An integer in digits, whichever way it was written; nothing for a fraction.
fn decimal(number: &Number) -> Option<String> {
    if number.is_i64() || number.is_u64() {
        return Some(number.to_string());
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    // Minus nothing is nothing.
    Some(format!("{:.0}", if value == 0.0 { 0.0 } else { value }))
}

/// Text as the value of a header: as it is where that is safe, otherwise encoded.
///
/// What could be lost or misread on the way is encoded as well: no text at all, a tab, and what looks
/// like the mark of the encoding.
pub fn header_value(text: &str) -> HeaderValue {
    const MARK: &[u8] = b"=?base64?";
    let bytes = text.as_bytes();
    let is_plain = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && !matches!(bytes.first(), None | Some(b' '))
        && bytes.last() != Some(&b' ');
    let looks_marked = bytes
        .get(..MARK.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(MARK));
    let value = if is_plain && !looks_marked {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::try_from(format!("=?base64?{}?=", STANDARD.encode(bytes)))
    };
    // Both are visible ASCII: there is nothing in them that a header may not hold.
    value.unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Where a schema stands in the whole of it.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    /// A property, reached through nothing but properties.
    Property(&'a Property<'a>),
    /// Anywhere else: which argument it is about depends on the arguments.
    Elsewhere,
}

struct Property<'a> {
    name: &'a str,
    parent: Option<&'a Property<'a>>,
}

impl Property<'_> {
    fn path(&self) -> Vec<String> {
        let mut path: Vec<String> = std::iter::successors(Some(self), |property| property.parent)
            .map(|property| property.name.to_owned())
            .collect();
        path.reverse();
        path
    }
}

#[derive(Default)]
struct Search {
    found: Vec<HeaderParam>,
    names: HashSet<HeaderName>,
}

impl Search {
    /// Goes through a schema and all that is in it; a tree of JSON is never deeper than its reader
    /// allows, which bounds the depth of this.
    fn visit(&mut self, schema: &Value, place: Place<'_>) -> Result<(), String> {
        let members = match schema {
            Value::Object(members) => members,
            Value::Array(branches) => {
                return branches
                    .iter()
                    .try_for_each(|branch| self.visit(branch, Place::Elsewhere));
            }
            _ => return Ok(()),
        };
        if let Some(name) = members.get(KEYWORD) {
            self.add(name, members.get("type"), place)?;
        }
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    self.visit_properties(properties, place)?;
                }
                (keyword, Value::Object(schemas)) if BY_NAME.contains(&keyword) => {
                    schemas
                        .values()
                        .try_for_each(|schema| self.visit(schema, Place::Elsewhere))?;
                }
                (keyword, _) if PLAIN_VALUES.contains(&keyword) => {}
                (_, value) => self.visit(value, Place::Elsewhere)?,
            }
        }
        Ok(())
    }

    fn visit_properties(
        &mut self,
        properties: &Map<String, Value>,
        place: Place<'_>,
    ) -> Result<(), String> {
        for (name, schema) in properties {
            let parent = match place {
                Place::Root => None,
                Place::Property(parent) => Some(parent),
                Place::Elsewhere => {
                    self.visit(schema, Place::Elsewhere)?;
                    continue;
                }
            };
            self.visit(schema, Place::Property(&Property { name, parent }))?;
        }
        Ok(())
    }

    fn add(&mut self, name: &Value, kind: Option<&Value>, place: Place<'_>) -> Result<(), String> {
        let Place::Property(property) = place else {
            return Err(format!(
                "`{KEYWORD}` stands where only plain properties lead to no single argument"
            ));
        };
        let path = property.path();
        let at = shown(&path.join("."));
        let refuse = |why: &str| Err(format!("`{KEYWORD}` of `{at}` {why}"));
        let Some(name) = name.as_str() else {
            return refuse("is no text");
        };
        if !matches!(
            kind.and_then(Value::as_str),
            Some("string" | "integer" | "boolean")
        ) {
            return refuse("is on what is neither a string, an integer nor a boolean");
        }
        if name.is_empty() || !name.bytes().all(is_token) {
            return refuse("is no name of a header");
        }
        if name.len() > LONGEST_NAME {
            return refuse(&format!("is longer than {LONGEST_NAME} bytes"));
        }
        let Ok(header) = HeaderName::try_from(format!("{PREFIX}{name}")) else {
            return refuse("is no name of a header");
        };
        if !self.names.insert(header.clone()) {
            return refuse(&format!("stands twice: `{}`", shown(name)));
        }
        if self.found.len() == MOST {
            return refuse(&format!("is one of more than {MOST}"));
        }
        self.found.push(HeaderParam { path, header });
        Ok(())
    }
}

/// The letters of a token (RFC 9110, `tchar`).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn shown(text: &str) -> String {
    let visible = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().take(SHOWN).map(visible).collect()
}

#[cfg(test)]
mod tests;
