//! The text of a file while it is edited: where everything in it stands.

use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use serde_json::{Map, Value as Json, json};

use super::EditError;
use super::format::{self, Layout};
use super::splice::{self, Change, Container};
use crate::diagnostic::{Diagnostic, Origin, Severity};
use crate::raw::{self, SourceText, Span};
use crate::text::replace_control_chars;

/// What some editors put before the text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

#[derive(Debug)]
pub(super) struct Document {
    file: PathBuf,
    has_mark: bool,
    text: String,
    root: Node,
    layout: Layout,
}

/// A value and its place.
#[derive(Debug)]
struct Node {
    span: Span,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Object(Vec<Member>),
    List(Vec<Node>),
    Plain(Json),
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

/// A member that was looked for and found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    object: ObjectAt<'a>,
    index: usize,
    member: &'a Member,
}

/// An object to edit.
#[derive(Debug)]
pub(super) struct ObjectAt<'a> {
    document: &'a Document,
    container: Container,
}

/// What was looked for and is not there.
#[derive(Debug)]
pub(super) enum Missing<'a> {
    /// This object lacks the first of these keys.
    Key {
        object: ObjectAt<'a>,
        rest: &'a [&'a str],
    },
    /// There is something else on the way, or the way is not clear.
    Wrong(Box<Diagnostic>),
}

impl Document {
    pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Self, EditError> {
        let text = raw::decode_file(file, bytes).map_err(EditError::Unusable)?;
        let has_mark = bytes.starts_with(BYTE_ORDER_MARK.as_bytes());
        Self::of_text(file, has_mark, text.to_owned())
    }

    fn of_text(file: &Path, has_mark: bool, text: String) -> Result<Self, EditError> {
        let parsed = raw::parse_text(file, &text).map_err(EditError::Unusable)?;
        let Some(value) = &parsed.value else {
            drop(parsed);
            return Self::of_text(file, has_mark, with_object(&text));
        };
        let root = node(value);
        drop(parsed);
        let document = Self {
            file: file.to_path_buf(),
            has_mark,
            layout: Layout {
                newline: newline_of(&text),
                unit: unit_of(&text, &root),
            },
            text,
            root,
        };
        match document.root.kind {
            Kind::Object(_) => Ok(document),
            _ => Err(EditError::Unusable(document.diagnostic(
                document.root.span,
                "the file must hold an object".to_owned(),
                Some("begin it with `{` and end it with `}`"),
            ))),
        }
    }

    /// The document after `changes`.
    pub(super) fn with(&self, changes: Vec<Change>) -> Result<Self, EditError> {
        let text = splice::apply(&self.text, changes);
        Self::of_text(&self.file, self.has_mark, text)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mark = if self.has_mark { BYTE_ORDER_MARK } else { "" };
        [mark.as_bytes(), self.text.as_bytes()].concat()
    }

    /// Where the member at `path` stands.
    pub(super) fn origin_of(&self, path: &[&str]) -> Option<Origin> {
        let found = self.find(path).ok()?;
        let text = SourceText::new(Some(&self.file), self.text.clone());
        Some(text.origin(found.member.key_span))
    }

    /// Looks for the member at `path`.
    pub(super) fn find<'a>(&'a self, path: &'a [&'a str]) -> Result<Found<'a>, Missing<'a>> {
        let mut at = &self.root;
        let mut before = "the file";
        let mut rest = path;
        loop {
            let Kind::Object(members) = &at.kind else {
                let message = format!("`{}` must be an object", replace_control_chars(before));
                let hint = Some("make it an object, or remove it");
                return Err(Missing::Wrong(self.diagnostic(at.span, message, hint)));
            };
            let object = || ObjectAt {
                document: self,
                container: at.container(),
            };
            let Some((key, further)) = rest.split_first() else {
                let message = "nothing was named that could be edited".to_owned();
                return Err(Missing::Wrong(self.diagnostic(at.span, message, None)));
            };
            let mut named = members.iter().enumerate().filter(|(_, m)| m.key == *key);
            let Some((index, member)) = named.next() else {
                let object = object();
                return Err(Missing::Key { object, rest });
            };
            if let Some((_, again)) = named.next() {
                let message = format!("the key `{}` is written twice", replace_control_chars(key));
                let hint = Some("remove one of the two");
                let wrong = self.diagnostic(again.key_span, message, hint);
                return Err(Missing::Wrong(wrong));
            }
            if further.is_empty() {
                return Ok(Found {
                    object: object(),
                    index,
                    member,
                });
            }
            (at, before, rest) = (&member.value, key, further);
        }
    }

    fn diagnostic(&self, span: Span, message: String, hint: Option<&str>) -> Box<Diagnostic> {
        // The source line is left out: it may hold a secret, and the place is named.
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

impl Found<'_> {
    pub(super) fn value(&self) -> Json {
        to_json(&self.member.value)
    }

    pub(super) fn replace(&self, value: &Json) -> Vec<Change> {
        let document = self.object.document;
        let text = document.text();
        let mut shape = self.object.container.shape(text, &document.layout);
        if let format::Shape::Lines { indent } = &mut shape {
            splice::line_indent(text, self.member.key_span.start).clone_into(indent);
        }
        let written = format::value(value, &shape, &document.layout);
        vec![Change::replace(self.member.value.span, written)]
    }

    pub(super) fn remove(&self) -> Vec<Change> {
        let text = self.object.document.text();
        self.object.container.remove(text, self.index)
    }

    /// Adds to the list that was found.
    pub(super) fn append(&self, value: &Json) -> Result<Vec<Change>, Box<Diagnostic>> {
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
        let shape = container.shape(document.text(), &document.layout);
        let written = format::item(value, &shape, &document.layout);
        Ok(container.insert(document.text(), &document.layout, &written))
    }
}

impl ObjectAt<'_> {
    /// Adds a member for the first of `path`; the others are objects inside of it, and hold `value`.
    pub(super) fn insert(&self, path: &[&str], value: &Json) -> Vec<Change> {
        let Some((key, inner)) = path.split_first() else {
            return Vec::new();
        };
        let value = inner
            .iter()
            .rev()
            .fold(value.clone(), |value, key| json!({ *key: value }));
        let layout = &self.document.layout;
        let shape = self.container.shape(self.document.text(), layout);
        let written = format::member(key, &value, &shape, layout);
        self.container
            .insert(self.document.text(), layout, &written)
    }
}

impl Node {
    fn container(&self) -> Container {
        Container {
            span: self.span,
            items: match &self.kind {
                Kind::Object(members) => members.iter().map(Member::span).collect(),
                Kind::List(items) => items.iter().map(|item| item.span).collect(),
                Kind::Plain(_) => Vec::new(),
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
        ast::Value::NullKeyword(_) => Kind::Plain(Json::Null),
        ast::Value::BooleanLit(flag) => Kind::Plain(Json::Bool(flag.value)),
        ast::Value::StringLit(text) => Kind::Plain(json!(text.value)),
        ast::Value::NumberLit(number) => {
            let digits = number.value;
            Kind::Plain(digits.parse().map_or_else(|_| json!(digits), Json::Number))
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
        Kind::Plain(value) => value.clone(),
    }
}

/// A text that holds comments at most, with an empty object behind them.
fn with_object(text: &str) -> String {
    let newline = newline_of(text);
    let text = text.trim_end();
    if text.is_empty() {
        format!("{{}}{newline}")
    } else {
        format!("{text}{newline}{{}}{newline}")
    }
}

fn newline_of(text: &str) -> &'static str {
    match text.find(['\n', '\r']).and_then(|at| text.get(at..)) {
        Some(end) if end.starts_with("\r\n") => "\r\n",
        Some(end) if end.starts_with('\r') => "\r",
        _ => "\n",
    }
}

/// What the file indents by: as much as its first member is, which begins a line.
fn unit_of(text: &str, root: &Node) -> String {
    let items = root.container().items;
    let mut starts = items.iter().map(|item| item.start);
    let first = starts.find(|start| splice::begins_line(text, *start));
    let indent = first.map_or("", |start| splice::line_indent(text, start));
    if indent.is_empty() { "  " } else { indent }.to_owned()
}
