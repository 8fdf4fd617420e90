//! Parses the config file of another client, in JSON or TOML, with the span of every value.
//!
//! The last of several duplicate keys in JSON is used. Invariant: an unusable file has one problem
//! and no value. Snippets show at most keys and harmless values.

use std::path::Path;

use jsonc_parser::{CollectOptions, ast, common::Ranged as _, parse_to_ast};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::parse::{self, MAX_DEPTH, OPTIONS, UniqueMembers, span_of};
use super::source_text::{SourceText, Span};
use super::{ParsedSource, Problem, RawKind, RawMember, RawValue, ReadError, read_file, redact};
use crate::diagnostic::{Diagnostic, Severity, SourcePos};
use crate::scope::Scope;
use crate::text::replace_control_chars;

/// Maximum file size in bytes. Large, because some clients store their history in the same file.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON, with or without comments.
    Json,
    Toml,
}

/// A parsed file.
#[derive(Debug)]
pub(crate) struct ForeignDocument {
    document: ParsedSource,
    syntax: Syntax,
    pub(crate) root: Option<RawValue>,
}

impl ForeignDocument {
    /// Reads the file at `path`. Returns `None` if there is no file.
    pub(crate) fn read(path: &Path, syntax: Syntax) -> Option<Self> {
        let (document, root) = match read_file::read_with_limit(path, MAX_BYTES) {
            Ok(bytes) => read_root(path, &bytes, syntax),
            Err(ReadError::Missing) => return None,
            // A warning: the file belongs to another client.
            Err(error) => (
                ParsedSource::unreadable(Some(path), &error.to_string(), error.hint(), Scope::User),
                None,
            ),
        };
        Some(Self {
            document,
            syntax,
            root,
        })
    }

    /// Adds a warning about a span of the file.
    pub(crate) fn warn(&mut self, message: String, hint: &str, span: Span) {
        let hidden = secret_spans(self.document.text.as_str(), self.syntax);
        self.document.text.redact(hidden);
        self.document.problems.push(Problem {
            severity: Severity::Warning,
            message,
            hint: Some(hint.to_owned()),
            span: Some(span),
            server: None,
        });
    }

    /// The position of a span.
    pub(crate) fn origin(&self, span: Span) -> SourcePos {
        self.document.text.origin(span)
    }

    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        self.document.diagnostics()
    }
}

/// Parses the file. Returns the source with its problems, and the root value.
fn read_root(path: &Path, bytes: &[u8], syntax: Syntax) -> (ParsedSource, Option<RawValue>) {
    let text = match parse::decode(bytes) {
        Ok(text) => text,
        Err(problem) => {
            let document =
                parse::encoding_error_source(Some(path), bytes, problem, Severity::Warning);
            return (document, None);
        }
    };
    let root = match syntax {
        Syntax::Json => match parse_to_ast(text, &CollectOptions::default(), &OPTIONS) {
            Ok(parsed) => parsed.value.map(|root| from_json(&root, 0)),
            Err(error) => {
                let document =
                    parse::syntax_error_source(Some(path), text, &error, Severity::Warning);
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

fn document(path: &Path, text: &str, problems: Vec<Problem>) -> ParsedSource {
    ParsedSource {
        text: SourceText::new(Some(path), text.to_owned()),
        servers: Vec::new(),
        is_unusable: !problems.is_empty(),
        problems,
    }
}

/// The spans of a text that may contain secrets.
fn secret_spans(text: &str, syntax: Syntax) -> Vec<Span> {
    match syntax {
        Syntax::Json => redact::redact_unparsed(text),
        // Without parsing, keys and values of TOML cannot be distinguished, so hide everything.
        Syntax::Toml => vec![Span {
            start: 0,
            end: text.len(),
        }],
    }
}

fn broken_toml(path: &Path, text: &str, error: &toml::de::Error) -> ParsedSource {
    let problem = Problem {
        severity: Severity::Warning,
        message: format!("not valid TOML: {}", replace_control_chars(error.message())),
        hint: None,
        span: error.span().map(|range| Span {
            start: range.start,
            end: range.end,
        }),
        server: None,
    };
    let mut document = document(path, text, vec![problem]);
    document.text.redact(secret_spans(text, Syntax::Toml));
    document
}

/// Converts a JSON value. Values deeper than [`MAX_DEPTH`] become null: they cannot be part of an
/// entry.
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
            let mut members = UniqueMembers::default();
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

/// Converts a TOML integer to decimal, the only base of JSON.
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
