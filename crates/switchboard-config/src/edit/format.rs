//! Formats new values in the style of the file.
//!
//! If the container around a value is on one line, so is the value. Otherwise, an object that is
//! the value of a member spans several lines, and a short list stays on one line, as does a short
//! object in a list.

use serde_json::Value as Json;

/// Maximum length in characters of a list or object that is written on one line although the
/// container around it spans several lines.
const MAX_LINE_CHARS: usize = 80;

/// The line ends and the indentation of a file.
#[derive(Debug)]
pub(super) struct JsonStyle {
    /// `"\n"`, `"\r\n"` or `"\r"`.
    pub(super) newline: &'static str,
    /// The indentation of one level, in spaces or tabs.
    pub(super) indent_unit: String,
}

/// How the container around a value is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// On several lines. `indent` is the indentation of the line on which the value starts.
    Lines { indent: String },
    /// On one line. `spaced` is true if spaces follow colons and commas.
    Inline { spaced: bool },
}

/// Formats `"key": value`.
pub(super) fn member(key: &str, value: &Json, shape: &Shape, style: &JsonStyle) -> String {
    let space = match shape {
        Shape::Inline { spaced: false } => "",
        _ => " ",
    };
    let key = Json::from(key);
    format!("{key}:{space}{}", self::value(value, shape, style))
}

/// Formats the value of a member.
pub(super) fn value(value: &Json, shape: &Shape, style: &JsonStyle) -> String {
    match shape {
        Shape::Inline { spaced: true } => inline(value),
        Shape::Inline { spaced: false } => value.to_string(),
        Shape::Lines { indent } => match value {
            Json::Object(members) if !members.is_empty() => {
                let inner = deeper(indent, style);
                let shape = Shape::Lines {
                    indent: inner.clone(),
                };
                let members = members
                    .iter()
                    .map(|(key, value)| member(key, value, &shape, style));
                lines('{', members, '}', indent, &inner, style)
            }
            Json::Array(items) if !is_short(value) => {
                let inner = deeper(indent, style);
                let shape = Shape::Lines {
                    indent: inner.clone(),
                };
                let items = items.iter().map(|value| item(value, &shape, style));
                lines('[', items, ']', indent, &inner, style)
            }
            _ => inline(value),
        },
    }
}

/// Formats an item of a list. Unlike the value of a member, a short object stays on one line.
pub(super) fn item(value: &Json, shape: &Shape, style: &JsonStyle) -> String {
    match shape {
        Shape::Lines { .. } if is_short(value) => inline(value),
        _ => self::value(value, shape, style),
    }
}

fn deeper(indent: &str, style: &JsonStyle) -> String {
    format!("{indent}{}", style.indent_unit)
}

fn lines(
    open: char,
    parts: impl Iterator<Item = String>,
    close: char,
    indent: &str,
    inner: &str,
    style: &JsonStyle,
) -> String {
    let newline = style.newline;
    let parts: Vec<_> = parts.map(|part| format!("{inner}{part}")).collect();
    let parts = parts.join(&format!(",{newline}"));
    format!("{open}{newline}{parts}{newline}{indent}{close}")
}

/// Returns true if the value contains no nested list or object and fits on one line.
fn is_short(value: &Json) -> bool {
    let is_scalar = |value: &Json| !(value.is_object() || value.is_array());
    let is_flat = match value {
        Json::Array(items) => items.iter().all(is_scalar),
        Json::Object(members) => members.values().all(is_scalar),
        _ => true,
    };
    is_flat && inline(value).chars().count() <= MAX_LINE_CHARS
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
