//! How new values are written: as people write them in such files.
//!
//! Objects go over several lines where their surroundings do; lists of plain values stay on one line while
//! they are short.

use serde_json::Value as Json;

/// What fits on one line.
const LINE_CHARS: usize = 80;

/// How a file is laid out.
#[derive(Debug)]
pub(super) struct Layout {
    /// What ends a line.
    pub(super) newline: &'static str,
    /// What one more level is indented by.
    pub(super) unit: String,
}

/// How the surroundings of a value are written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Over several lines; the one that the value begins in is indented by this.
    Lines { indent: String },
    /// On one line, with blanks after colons and commas or without.
    Inline { spaced: bool },
}

/// `"key": value`
pub(super) fn member(key: &str, value: &Json, shape: &Shape, layout: &Layout) -> String {
    let blank = match shape {
        Shape::Inline { spaced: false } => "",
        _ => " ",
    };
    let key = Json::from(key);
    format!("{key}:{blank}{}", self::value(value, shape, layout))
}

/// A value that stands behind a key.
pub(super) fn value(value: &Json, shape: &Shape, layout: &Layout) -> String {
    match shape {
        Shape::Inline { spaced: true } => inline(value),
        Shape::Inline { spaced: false } => value.to_string(),
        Shape::Lines { indent } => match value {
            Json::Object(members) if !members.is_empty() => {
                let inner = deeper(indent, layout);
                let shape = Shape::Lines {
                    indent: inner.clone(),
                };
                let members = members
                    .iter()
                    .map(|(key, value)| member(key, value, &shape, layout));
                lines('{', members, '}', indent, &inner, layout)
            }
            Json::Array(items) if !is_short(value) => {
                let inner = deeper(indent, layout);
                let shape = Shape::Lines {
                    indent: inner.clone(),
                };
                let items = items.iter().map(|value| item(value, &shape, layout));
                lines('[', items, ']', indent, &inner, layout)
            }
            _ => inline(value),
        },
    }
}

/// A value that stands in a list: even an object stays on one line there while it is short.
pub(super) fn item(value: &Json, shape: &Shape, layout: &Layout) -> String {
    match shape {
        Shape::Lines { .. } if is_short(value) => inline(value),
        _ => self::value(value, shape, layout),
    }
}

fn deeper(indent: &str, layout: &Layout) -> String {
    format!("{indent}{}", layout.unit)
}

fn lines(
    open: char,
    parts: impl Iterator<Item = String>,
    close: char,
    indent: &str,
    inner: &str,
    layout: &Layout,
) -> String {
    let newline = layout.newline;
    let parts: Vec<_> = parts.map(|part| format!("{inner}{part}")).collect();
    let parts = parts.join(&format!(",{newline}"));
    format!("{open}{newline}{parts}{newline}{indent}{close}")
}

/// Whether a list or an object holds plain values only and fits on a line.
fn is_short(value: &Json) -> bool {
    let is_plain = |value: &Json| !(value.is_object() || value.is_array());
    let holds_plain = match value {
        Json::Array(items) => items.iter().all(is_plain),
        Json::Object(members) => members.values().all(is_plain),
        _ => true,
    };
    holds_plain && inline(value).chars().count() <= LINE_CHARS
}

fn inline(value: &Json) -> String {
    match value {
        Json::Object(members) if !members.is_empty() => {
            let members: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{}: {}", Json::from(key.as_str()), inline(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Json::Array(items) => {
            let items: Vec<_> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        _ => value.to_string(),
    }
}
