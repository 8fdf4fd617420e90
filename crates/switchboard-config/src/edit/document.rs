//! A parsed JSONC text with the byte span of every value and key.
//!
//! Finds members by path and computes the [`TextEdit`]s that change them. Each edit produces a new
//! `Document`, parsed from the new text, so the spans always match.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use serde_json::{Map, Value as Json, json};

use super::EditError;
use super::format::{self, JsonStyle};
use super::splice::{self, Container, TextEdit};
use crate::diagnostic::{Diagnostic, Severity, SourcePos};
use crate::raw::{self, SourceText, Span};
use crate::text::replace_control_chars;

const BYTE_ORDER_MARK: &str = "\u{feff}";

#[derive(Debug)]
pub(super) struct Document {
    file: PathBuf,
    has_bom: bool,
    text: String,
    root: Node,
    style: JsonStyle,
}

/// A value and its span.
#[derive(Debug)]
struct Node {
    span: Span,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Object(Vec<Member>),
    List(Vec<Node>),
    Scalar(Json),
}

#[derive(Debug)]
struct Member {
    key: String,
    key_span: Span,
    value: Node,
}

impl Member {
    fn span(&self) -> Span {
        Span {
            start: self.key_span.start,
            end: self.value.span.end,
        }
    }
}

/// A member of an object, found by path.
#[derive(Debug)]
pub(super) struct FoundMember<'a> {
    object: ObjectRef<'a>,
    index: usize,
    member: &'a Member,
}

/// An object in the document.
#[derive(Debug)]
pub(super) struct ObjectRef<'a> {
    document: &'a Document,
    container: Container,
}

/// Why no member was found.
#[derive(Debug)]
pub(super) enum LookupError<'a> {
    /// `object` exists and has no member `rest[0]`.
    Key {
        object: ObjectRef<'a>,
        rest: &'a [&'a str],
    },
    /// The path is empty, or leads through a value that is not an object, or through a duplicate
    /// key.
    NotEditable(Box<Diagnostic>),
}

impl Document {
    pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Self, EditError> {
        let text = raw::decode_file(file, bytes).map_err(EditError::NotEditable)?;
        let has_bom = bytes.starts_with(BYTE_ORDER_MARK.as_bytes());
        Self::parse_text(file, has_bom, text.to_owned())
    }

    fn parse_text(file: &Path, has_bom: bool, text: String) -> Result<Self, EditError> {
        let parsed = raw::parse_text(file, &text).map_err(EditError::NotEditable)?;
        let Some(value) = &parsed.value else {
            drop(parsed);
            return Self::parse_text(file, has_bom, append_empty_object(&text));
        };
        let root = node(value);
        drop(parsed);
        let document = Self {
            file: file.to_path_buf(),
            has_bom,
            style: JsonStyle {
                newline: newline_style(&text),
                indent_unit: indent_unit(&text, &root),
            },
            text,
            root,
        };
        match document.root.kind {
            Kind::Object(_) => Ok(document),
            _ => Err(EditError::NotEditable(document.diagnostic(
                document.root.span,
                "the file must contain a JSON object".to_owned(),
                Some("start it with `{` and end it with `}`"),
            ))),
        }
    }

    /// Returns the document after `edits`.
    pub(super) fn apply(&self, edits: Vec<TextEdit>) -> Result<Self, EditError> {
        let text = splice::apply(&self.text, edits);
        Self::parse_text(&self.file, self.has_bom, text)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let bom = if self.has_bom { BYTE_ORDER_MARK } else { "" };
        [bom.as_bytes(), self.text.as_bytes()].concat()
    }

    /// The position of the key at `path`.
    pub(super) fn origin_of(&self, path: &[&str]) -> Option<SourcePos> {
        let found = self.find(path).ok()?;
        let text = SourceText::new(Some(&self.file), self.text.clone());
        Some(text.origin(found.member.key_span))
    }

    /// Finds the member at `path`.
    pub(super) fn find<'a>(
        &'a self,
        path: &'a [&'a str],
    ) -> Result<FoundMember<'a>, LookupError<'a>> {
        let mut at = &self.root;
        let mut before = "the file";
        let mut rest = path;
        loop {
            let Kind::Object(members) = &at.kind else {
                let message = format!("`{}` must be an object", replace_control_chars(before));
                let hint = Some("make it an object, or remove it");
                return Err(LookupError::NotEditable(
                    self.diagnostic(at.span, message, hint),
                ));
            };
            let object = || ObjectRef {
                document: self,
                container: at.container(),
            };
            let Some((key, further)) = rest.split_first() else {
                let message = "the path to edit is empty".to_owned();
                return Err(LookupError::NotEditable(
                    self.diagnostic(at.span, message, None),
                ));
            };
            let mut named = members.iter().enumerate().filter(|(_, m)| m.key == *key);
            let Some((index, member)) = named.next() else {
                let object = object();
                return Err(LookupError::Key { object, rest });
            };
            if let Some((_, again)) = named.next() {
                let message = format!("duplicate key `{}`", replace_control_chars(key));
                let hint = Some("remove one of them");
                let diagnostic = self.diagnostic(again.key_span, message, hint);
                return Err(LookupError::NotEditable(diagnostic));
            }
            if further.is_empty() {
                return Ok(FoundMember {
                    object: object(),
                    index,
                    member,
                });
            }
            (at, before, rest) = (&member.value, key, further);
        }
    }

    fn diagnostic(&self, span: Span, message: String, hint: Option<&str>) -> Box<Diagnostic> {
        // No snippet: the line may contain a secret, and the position is enough.
        let text = SourceText::new(Some(&self.file), self.text.clone());
        Box::new(Diagnostic {
            severity: Severity::Error,
            message,
            hint: hint.map(str::to_owned),
            origin: Some(text.origin(span)),
            snippet: None,
            server: None,
        })
    }
}

impl FoundMember<'_> {
    pub(super) fn value(&self) -> Json {
        to_json(&self.member.value)
    }

    pub(super) fn replace(&self, value: &Json) -> Vec<TextEdit> {
        let document = self.object.document;
        let text = document.text();
        let mut shape = self.object.container.shape(text, &document.style);
        if let format::Shape::Lines { indent } = &mut shape {
            splice::line_indent(text, self.member.key_span.start).clone_into(indent);
        }
        let written = format::value(value, &shape, &document.style);
        vec![TextEdit::replace(self.member.value.span, written)]
    }

    pub(super) fn remove(&self) -> Vec<TextEdit> {
        let text = self.object.document.text();
        self.object.container.remove(text, self.index)
    }

    /// Returns the edits that remove an item of the list. Empty if the member has no such item.
    pub(super) fn remove_item(&self, index: usize) -> Vec<TextEdit> {
        let list = &self.member.value;
        match list.kind {
            Kind::List(_) => list.container().remove(self.object.document.text(), index),
            _ => Vec::new(),
        }
    }

    /// Returns the edits that add `members` to the object that is the value of this member, and the
    /// keys that it does not have yet. Fails if the value is not an object.
    pub(super) fn insert_missing<'m>(
        &self,
        members: &'m Map<String, Json>,
    ) -> Result<(Vec<TextEdit>, Vec<&'m str>), Box<Diagnostic>> {
        let document = self.object.document;
        let Kind::Object(existing) = &self.member.value.kind else {
            let key = replace_control_chars(&self.member.key);
            let message = format!("`{key}` must be an object");
            let hint = Some("make it an object, or remove it");
            return Err(document.diagnostic(self.member.value.span, message, hint));
        };
        let existing: HashSet<_> = existing.iter().map(|member| member.key.as_str()).collect();
        let missing = members
            .iter()
            .filter(|(key, _)| !existing.contains(key.as_str()));
        let missing: Vec<_> = missing.collect();
        let keys: Vec<_> = missing.iter().map(|(key, _)| key.as_str()).collect();
        if missing.is_empty() {
            return Ok((Vec::new(), keys));
        }
        let (text, style) = (document.text(), &document.style);
        let container = self.member.value.container();
        let shape = container.shape(text, style);
        let written = missing
            .iter()
            .map(|(key, value)| format::member(key, value, &shape, style));
        let written: Vec<_> = written.collect();
        let separator = format!(",{}", splice::space_before_item(&shape, style));
        let edits = container.insert(text, style, &written.join(&separator));
        Ok((edits, keys))
    }

    /// Returns the edits that append `value` to the member. Fails if the member is not a list.
    pub(super) fn append(&self, value: &Json) -> Result<Vec<TextEdit>, Box<Diagnostic>> {
        let document = self.object.document;
        let list = &self.member.value;
        if !matches!(list.kind, Kind::List(_)) {
            let message = format!(
                "`{}` must be a list",
                replace_control_chars(&self.member.key)
            );
            let hint = Some("make it a list, or remove it");
            return Err(document.diagnostic(list.span, message, hint));
        }
        let container = list.container();
        let shape = container.shape(document.text(), &document.style);
        let written = format::item(value, &shape, &document.style);
        Ok(container.insert(document.text(), &document.style, &written))
    }
}

impl ObjectRef<'_> {
    /// Adds the member `path[0]`. The remaining keys become nested objects around `value`.
    pub(super) fn insert(&self, path: &[&str], value: &Json) -> Vec<TextEdit> {
        let Some((key, inner)) = path.split_first() else {
            return Vec::new();
        };
        let value = inner
            .iter()
            .rev()
            .fold(value.clone(), |value, key| json!({ *key: value }));
        let style = &self.document.style;
        let shape = self.container.shape(self.document.text(), style);
        let written = format::member(key, &value, &shape, style);
        self.container.insert(self.document.text(), style, &written)
    }
}

impl Node {
    fn container(&self) -> Container {
        Container {
            span: self.span,
            items: match &self.kind {
                Kind::Object(members) => members.iter().map(Member::span).collect(),
                Kind::List(items) => items.iter().map(|item| item.span).collect(),
                Kind::Scalar(_) => Vec::new(),
            },
        }
    }
}

fn node(value: &ast::Value<'_>) -> Node {
    let kind = match value {
        ast::Value::Object(object) => Kind::Object(
            object
                .properties
                .iter()
                .map(|prop| Member {
                    key: prop.name.as_str().to_owned(),
                    key_span: raw::span_of(prop.name.range()),
                    value: node(&prop.value),
                })
                .collect(),
        ),
        ast::Value::Array(array) => Kind::List(array.elements.iter().map(node).collect()),
        ast::Value::NullKeyword(_) => Kind::Scalar(Json::Null),
        ast::Value::BooleanLit(flag) => Kind::Scalar(Json::Bool(flag.value)),
        ast::Value::StringLit(text) => Kind::Scalar(json!(text.value)),
        ast::Value::NumberLit(number) => {
            let digits = number.value;
            Kind::Scalar(digits.parse().map_or_else(|_| json!(digits), Json::Number))
        }
    };
    Node {
        span: raw::span_of(value.range()),
        kind,
    }
}

fn to_json(node: &Node) -> Json {
    match &node.kind {
        Kind::Object(members) => Json::Object(
            members
                .iter()
                .map(|member| (member.key.clone(), to_json(&member.value)))
                .collect::<Map<_, _>>(),
        ),
        Kind::List(items) => items.iter().map(to_json).collect(),
        Kind::Scalar(value) => value.clone(),
    }
}

/// Appends an empty object to a text that is empty or contains only comments.
fn append_empty_object(text: &str) -> String {
    let newline = newline_style(text);
    let text = text.trim_end();
    if text.is_empty() {
        format!("{{}}{newline}")
    } else {
        format!("{text}{newline}{{}}{newline}")
    }
}

fn newline_style(text: &str) -> &'static str {
    match text.find(['\n', '\r']).and_then(|at| text.get(at..)) {
        Some(end) if end.starts_with("\r\n") => "\r\n",
        Some(end) if end.starts_with('\r') => "\r",
        _ => "\n",
    }
}

/// Returns the indentation of the first top-level member that starts a line; two spaces if there is
/// none.
fn indent_unit(text: &str, root: &Node) -> String {
    let items = root.container().items;
    let mut starts = items.iter().map(|item| item.start);
    let first = starts.find(|start| splice::starts_line(text, *start));
    let indent = first.map_or("", |start| splice::line_indent(text, start));
    if indent.is_empty() { "  " } else { indent }.to_owned()
}
