//! Reading a whole file of another program: every value with its place, in JSON or TOML.
//!
//! What of it matters is for others to pick. As everywhere in JSON, the last of several equal keys
//! counts. Invariant: a file that cannot be read yields one finding and no value, and nothing but keys
//! and harmless values of it can be shown.

use std::path::Path;

use jsonc_parser::{CollectOptions, ast, common::Ranged as _, parse_to_ast};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::parse::{self, MAX_DEPTH, Members, OPTIONS, span_of};
use super::source_text::{SourceText, Span};
use super::{Finding, RawDocument, RawKind, RawMember, RawValue, ReadError, read_file, redact};
use crate::diagnostic::{Diagnostic, Origin, Severity};
use crate::scope::Scope;
use crate::text::replace_control_chars;

/// The largest file of another program that is read. Some keep whole histories beside their servers.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON, with or without comments.
    Json,
    Toml,
}

/// A file, read as far as it could be.
#[derive(Debug)]
pub(crate) struct Whole {
    document: RawDocument,
    syntax: Syntax,
    pub(crate) root: Option<RawValue>,
}

impl Whole {
    /// Reads the file at `path`. `None`: there is none.
    pub(crate) fn read(path: &Path, syntax: Syntax) -> Option<Self> {
        let (document, root) = match read_file::read_up_to(path, MAX_BYTES) {
            Ok(bytes) => read_root(path, &bytes, syntax),
            Err(ReadError::Missing) => return None,
            // A file that merely lies around is not in the way.
            Err(error) => (
                RawDocument::unreadable(Some(path), &error.to_string(), error.hint(), Scope::User),
                None,
            ),
        };
        Some(Self {
            document,
            syntax,
            root,
        })
    }

    /// Warns about a place in the file.
    pub(crate) fn warn(&mut self, message: String, hint: &str, span: Span) {
        let hidden = secrets_of(self.document.text.as_str(), self.syntax);
        self.document.text.hide(hidden);
        self.document.findings.push(Finding {
            severity: Severity::Warning,
            message,
            hint: Some(hint.to_owned()),
            span: Some(span),
            server: None,
        });
    }

    /// Where something stands.
    pub(crate) fn origin(&self, span: Span) -> Origin {
        self.document.text.origin(span)
    }

    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        self.document.diagnostics()
    }
}

/// The file, with what is wrong with it, and the value that it holds.
fn read_root(path: &Path, bytes: &[u8], syntax: Syntax) -> (RawDocument, Option<RawValue>) {
    let text = match parse::decode(bytes) {
        Ok(text) => text,
        Err(problem) => {
            let document = parse::undecodable(Some(path), bytes, problem, Severity::Warning);
            return (document, None);
        }
    };
    let root = match syntax {
        Syntax::Json => match parse_to_ast(text, &CollectOptions::default(), &OPTIONS) {
            Ok(parsed) => parsed.value.map(|root| from_json(&root, 0)),
            Err(error) => {
                let document = parse::broken(Some(path), text, &error, Severity::Warning);
                return (document, None);
            }
        },
        Syntax::Toml => match DeTable::parse(text) {
            Ok(root) => Some(RawValue {
                span: Span::default(),
                kind: from_table(root.get_ref(), 0),
            }),
            Err(error) => return (broken_toml(path, text, &error), None),
        },
    };
    (document(path, text, Vec::new()), root)
}

fn document(path: &Path, text: &str, findings: Vec<Finding>) -> RawDocument {
    RawDocument {
        text: SourceText::new(Some(path), text.to_owned()),
        servers: Vec::new(),
        is_broken: !findings.is_empty(),
        findings,
    }
}

/// What of a text may be a secret.
fn secrets_of(text: &str, syntax: Syntax) -> Vec<Span> {
    match syntax {
        Syntax::Json => redact::by_looks(text),
        // Which of its words are keys cannot be told by their looks.
        Syntax::Toml => vec![Span {
            start: 0,
            end: text.len(),
        }],
    }
}

fn broken_toml(path: &Path, text: &str, error: &toml::de::Error) -> RawDocument {
    let finding = Finding {
        severity: Severity::Warning,
        message: format!("not valid TOML: {}", replace_control_chars(error.message())),
        hint: None,
        span: error.span().map(|range| Span {
            start: range.start,
            end: range.end,
        }),
        server: None,
    };
    let mut document = document(path, text, vec![finding]);
    document.text.hide(secrets_of(text, Syntax::Toml));
    document
}

/// What nests deeper than any entry is taken for nothing: it cannot be part of one.
fn from_json(value: &ast::Value<'_>, depth: usize) -> RawValue {
    let span = span_of(value.range());
    let kind = match value {
        _ if depth > MAX_DEPTH => RawKind::Null,
        ast::Value::NullKeyword(_) => RawKind::Null,
        ast::Value::BooleanLit(flag) => RawKind::Bool(flag.value),
        ast::Value::NumberLit(number) => RawKind::Number(number.value.to_owned()),
        ast::Value::StringLit(text) => RawKind::Text(text.value.clone().into_owned()),
        ast::Value::Array(array) => RawKind::List(
            array
                .elements
                .iter()
                .map(|item| from_json(item, depth + 1))
                .collect(),
        ),
        ast::Value::Object(object) => {
            let mut members = Members::default();
            for prop in &object.properties {
                members.push(RawMember {
                    key: prop.name.as_str().to_owned(),
                    key_span: span_of(prop.name.range()),
                    value: from_json(&prop.value, depth + 1),
                });
            }
            RawKind::Object(members.list)
        }
    };
    RawValue { span, kind }
}

fn from_table(table: &DeTable<'_>, depth: usize) -> RawKind {
    let members = table.iter().map(|(key, value)| RawMember {
        key: key.get_ref().to_string(),
        key_span: span_in(key),
        value: from_toml(value, depth + 1),
    });
    RawKind::Object(members.collect())
}

fn from_toml(value: &Spanned<DeValue<'_>>, depth: usize) -> RawValue {
    let kind = match value.get_ref() {
        _ if depth > MAX_DEPTH => RawKind::Null,
        DeValue::String(text) => RawKind::Text(text.to_string()),
        DeValue::Integer(number) => RawKind::Number(decimal(number.as_str(), number.radix())),
        DeValue::Float(number) => RawKind::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => RawKind::Bool(*flag),
        DeValue::Datetime(time) => RawKind::Text(time.to_string()),
        DeValue::Array(items) => RawKind::List(
            items
                .iter()
                .map(|item| from_toml(item, depth + 1))
                .collect(),
        ),
        DeValue::Table(table) => from_table(table, depth),
    };
    RawValue {
        span: span_in(value),
        kind,
    }
}

/// JSON knows numbers to the base of ten only.
fn decimal(digits: &str, radix: u32) -> String {
    match i64::from_str_radix(&digits.replace('_', ""), radix) {
        Ok(number) => number.to_string(),
        Err(_) => digits.to_owned(),
    }
}

fn span_in<T>(spanned: &Spanned<T>) -> Span {
    let range = spanned.span();
    Span {
        start: range.start,
        end: range.end,
    }
}
