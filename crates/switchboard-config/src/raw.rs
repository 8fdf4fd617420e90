//! Reading one source into raw entries: as written, with the place of each value.
//!
//! JSON with comments and trailing commas is read. What the entries mean is not decided here; that
//! the text can be read, and that no key stands in it twice, is. Invariant: a source that cannot be
//! read yields one finding and no entries.

mod foreign_file;
mod parse;
mod read_file;
mod redact;
mod source_text;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::diagnostic::{Diagnostic, Origin, Severity};
use crate::scope::Scope;
use crate::server_name::ServerName;

pub(crate) use foreign_file::{Syntax, Whole};
pub(crate) use parse::{decode_file, parse_text, span_of};
pub(crate) use read_file::{ReadError, read as read_file};
pub(crate) use source_text::{SourceText, Span};

/// Further findings about one source are counted, not kept.
const MAX_FINDINGS: usize = 100;

/// A value as written, and where.
#[derive(Debug)]
pub(crate) struct RawValue {
    pub(crate) span: Span,
    pub(crate) kind: RawKind,
}

#[derive(Debug)]
pub(crate) enum RawKind {
    Null,
    Bool(bool),
    /// A number in the very digits it was written in.
    Number(String),
    Text(String),
    List(Vec<RawValue>),
    /// The members in their order, each key once.
    Object(Vec<RawMember>),
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct RawMember {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: RawValue,
}

impl RawValue {
    /// A value given in code, which has no place in any text.
    pub(crate) fn from_json(json: &Json) -> Self {
        let kind = match json {
            Json::Null => RawKind::Null,
            Json::Bool(flag) => RawKind::Bool(*flag),
            Json::Number(number) => RawKind::Number(number.to_string()),
            Json::String(text) => RawKind::Text(text.clone()),
            Json::Array(items) => RawKind::List(items.iter().map(Self::from_json).collect()),
            Json::Object(members) => RawKind::Object(
                members
                    .iter()
                    .map(|(key, value)| RawMember {
                        key: key.clone(),
                        key_span: Span::default(),
                        value: Self::from_json(value),
                    })
                    .collect(),
            ),
        };
        Self {
            span: Span::default(),
            kind,
        }
    }

    /// The members of an object, and none of anything else.
    pub(crate) fn members(&self) -> &[RawMember] {
        match &self.kind {
            RawKind::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn member(&self, key: &str) -> Option<&RawMember> {
        self.members().iter().find(|member| member.key == key)
    }

    /// What it is, in the words of a message.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            RawKind::Null => "null",
            RawKind::Bool(_) => "a boolean",
            RawKind::Number(_) => "a number",
            RawKind::Text(_) => "a string",
            RawKind::List(_) => "a list",
            RawKind::Object(_) => "an object",
        }
    }
}

/// A finding before it is known how its place reads.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// `None`: the source as a whole.
    pub(crate) span: Option<Span>,
    pub(crate) server: Option<ServerName>,
}

/// What a look at a file brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileContent {
    Missing,
    Bytes(Arc<[u8]>),
    Unreadable {
        message: String,
        hint: Option<&'static str>,
    },
}

impl FileContent {
    pub(crate) fn read(path: &Path) -> Self {
        match read_file::read(path) {
            Ok(bytes) => Self::Bytes(bytes.into()),
            Err(ReadError::Missing) => Self::Missing,
            Err(error) => Self::unreadable(&error),
        }
    }

    fn unreadable(error: &ReadError) -> Self {
        Self::Unreadable {
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

/// One source, read as far as it could be.
#[derive(Debug)]
pub(crate) struct RawDocument {
    pub(crate) text: SourceText,
    /// The members of `mcpServers`, each name once.
    pub(crate) servers: Vec<RawMember>,
    pub(crate) findings: Vec<Finding>,
    /// It could not be read at all: not because of what one entry says.
    pub(crate) is_broken: bool,
}

impl RawDocument {
    /// Reads JSON text that stands for itself.
    pub(crate) fn inline(text: &str, scope: Scope) -> Self {
        Self::from_bytes(None, text.as_bytes(), scope)
    }

    /// Reads what a file holds. `None`: there is nothing to read, and nothing to say about that.
    pub(crate) fn of_file(path: &Path, content: &FileContent, scope: Scope) -> Option<Self> {
        let missing = FileContent::unreadable(&ReadError::Missing);
        let content = match content {
            FileContent::Missing if scope == Scope::CommandLine => &missing,
            FileContent::Missing => return None,
            content => content,
        };
        Some(match content {
            FileContent::Bytes(bytes) => Self::from_bytes(Some(path), bytes, scope),
            FileContent::Unreadable { message, hint } => {
                Self::unreadable(Some(path), message, *hint, scope)
            }
            FileContent::Missing => return None,
        })
    }

    /// Reads a file that is one object. `None`: there is no file. What cannot be read is an error,
    /// whoever wrote it. `example`: what may stand in it.
    pub(crate) fn read_object(path: &Path, example: &str) -> Option<(Self, Option<RawValue>)> {
        let error = match read_file::read(path) {
            Ok(bytes) => return Some(parse::parse_object(Some(path), &bytes, example)),
            // A link that leads nowhere was put there by somebody who meant something by it.
            Err(ReadError::Missing) if std::fs::symlink_metadata(path).is_err() => {
                return None;
            }
            Err(error) => error,
        };
        let hint = Some("mend the file, or remove it");
        let document = Self::unreadable(Some(path), &error.to_string(), hint, Scope::CommandLine);
        Some((document, None))
    }

    fn from_bytes(file: Option<&Path>, bytes: &[u8], scope: Scope) -> Self {
        if bytes.len() > read_file::MAX_BYTES {
            let limit = read_file::MAX_BYTES;
            let error = ReadError::TooLarge { limit };
            return Self::unreadable(file, &error.to_string(), error.hint(), scope);
        }
        parse::parse(file, bytes, scope.severity_of_failure())
    }

    fn unreadable(file: Option<&Path>, message: &str, hint: Option<&str>, scope: Scope) -> Self {
        let finding = Finding {
            severity: scope.severity_of_failure(),
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
            span: None,
            server: None,
        };
        Self {
            text: SourceText::new(file, String::new()),
            servers: Vec::new(),
            findings: vec![finding],
            is_broken: true,
        }
    }

    /// The first error that was found, whether or not there is room to show it.
    pub(crate) fn first_error(&self) -> Option<Diagnostic> {
        let mut findings = self.findings.iter();
        let error = findings.find(|finding| finding.severity == Severity::Error)?;
        Some(self.diagnostic(error))
    }

    /// What was found, with the place of each finding in the text. Where that is too much, errors are
    /// shown before the rest.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let left_out = self.findings.len().saturating_sub(MAX_FINDINGS);
        let more = (left_out > 0).then(|| Finding {
            severity: Severity::Warning,
            message: format!("{left_out} more problems are not shown"),
            hint: None,
            span: None,
            server: None,
        });
        let mut shown: Vec<&Finding> = self.findings.iter().collect();
        if left_out > 0 {
            shown.sort_by_key(|finding| finding.severity != Severity::Error);
        }
        shown
            .into_iter()
            .take(MAX_FINDINGS)
            .chain(&more)
            .map(|finding| self.diagnostic(finding))
            .collect()
    }

    fn diagnostic(&self, finding: &Finding) -> Diagnostic {
        Diagnostic {
            severity: finding.severity,
            message: finding.message.clone(),
            hint: finding.hint.clone(),
            origin: Some(match finding.span {
                Some(span) => self.text.origin(span),
                None => Origin::of_whole(self.text.file()),
            }),
            snippet: finding.span.map(|span| self.text.snippet(span)),
            server: finding.server.clone(),
        }
    }
}
