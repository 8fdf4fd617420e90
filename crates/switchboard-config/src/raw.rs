//! Parses a config source into raw values that keep their source spans.
//!
//! Accepts JSON with comments and trailing commas, and reports syntax errors and duplicate keys.
//! Files of other clients may also be TOML. The meaning of entries is checked in
//! [`validate`](crate::validate). Invariant: an unusable source has at least one problem and no
//! entries.

mod foreign_file;
mod parse;
mod read_file;
mod redact;
mod source_text;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::diagnostic::{Diagnostic, Severity, SourcePos};
use crate::scope::Scope;
use crate::server_name::ServerName;

pub(crate) use foreign_file::{ForeignDocument, Syntax};
pub(crate) use parse::{decode_file, parse_text, span_of};
pub(crate) use read_file::{ReadError, read as read_file};
pub(crate) use source_text::{SourceText, Span};

/// Maximum number of problems shown per source. Problems beyond this number are only counted.
const MAX_PROBLEMS: usize = 100;

/// A value as written, with its span.
#[derive(Debug)]
pub(crate) struct RawValue {
    pub(crate) span: Span,
    pub(crate) kind: RawKind,
}

#[derive(Debug)]
pub(crate) enum RawKind {
    Null,
    Bool(bool),
    /// A number, with its digits as written.
    Number(String),
    Text(String),
    List(Vec<RawValue>),
    /// The members in the order of the source, each key once.
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
    /// Converts a value that comes from code. All spans are empty, because it has no source text.
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

    /// The members of an object; empty for any other value.
    pub(crate) fn members(&self) -> &[RawMember] {
        match &self.kind {
            RawKind::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn member(&self, key: &str) -> Option<&RawMember> {
        self.members().iter().find(|member| member.key == key)
    }

    /// The JSON type, for messages.
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

/// A problem with a byte span, before line and column are computed.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// `None` if the problem concerns the source as a whole.
    pub(crate) span: Option<Span>,
    pub(crate) server: Option<ServerName>,
}

/// The result of reading a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileRead {
    Missing,
    Bytes(Arc<[u8]>),
    Unreadable {
        message: String,
        hint: Option<&'static str>,
    },
}

impl FileRead {
    pub(crate) fn read(path: &Path) -> Self {
        match read_file::read(path) {
            Ok(bytes) => Self::Bytes(bytes.into()),
            // The user expects servers behind a dangling symbolic link.
            Err(ReadError::Missing) if std::fs::symlink_metadata(path).is_ok() => {
                Self::Unreadable {
                    message: "the file is a symbolic link to a missing file".to_owned(),
                    hint: Some("correct or remove the link"),
                }
            }
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

/// One parsed source.
#[derive(Debug)]
pub(crate) struct ParsedSource {
    pub(crate) text: SourceText,
    /// The members of `mcpServers`, each name once.
    pub(crate) servers: Vec<RawMember>,
    pub(crate) problems: Vec<Problem>,
    /// True if the source as a whole could not be used. False if only single entries have problems.
    pub(crate) is_unusable: bool,
}

impl ParsedSource {
    /// Parses inline JSON text.
    pub(crate) fn inline(text: &str, scope: Scope) -> Self {
        Self::from_bytes(None, text.as_bytes(), scope)
    }

    /// Parses the content of a file. Returns `None` for a missing file, except in the command-line
    /// scope.
    pub(crate) fn from_file(path: &Path, content: &FileRead, scope: Scope) -> Option<Self> {
        let missing = FileRead::unreadable(&ReadError::Missing);
        let content = match content {
            FileRead::Missing if scope == Scope::CommandLine => &missing,
            FileRead::Missing => return None,
            content => content,
        };
        Some(match content {
            FileRead::Bytes(bytes) => Self::from_bytes(Some(path), bytes, scope),
            FileRead::Unreadable { message, hint } => {
                Self::unreadable(Some(path), message, *hint, scope)
            }
            FileRead::Missing => return None,
        })
    }

    /// Reads a file that contains one object. Returns `None` if there is no file. Every problem is
    /// an error, in every scope. `example` is shown in hints.
    pub(crate) fn read_object(path: &Path, example: &str) -> Option<(Self, Option<RawValue>)> {
        let error = match read_file::read(path) {
            Ok(bytes) => return Some(parse::parse_object(Some(path), &bytes, example)),
            // A dangling symbolic link is an error: the user expects settings there.
            Err(ReadError::Missing) if std::fs::symlink_metadata(path).is_err() => {
                return None;
            }
            Err(error) => error,
        };
        let hint = Some("fix or remove the file");
        let document = Self::unreadable(Some(path), &error.to_string(), hint, Scope::CommandLine);
        Some((document, None))
    }

    fn from_bytes(file: Option<&Path>, bytes: &[u8], scope: Scope) -> Self {
        if bytes.len() > read_file::MAX_BYTES {
            let limit = read_file::MAX_BYTES;
            let error = ReadError::TooLarge { limit };
            return Self::unreadable(file, &error.to_string(), error.hint(), scope);
        }
        parse::parse(file, bytes, scope.failure_severity())
    }

    fn unreadable(file: Option<&Path>, message: &str, hint: Option<&str>, scope: Scope) -> Self {
        let problem = Problem {
            severity: scope.failure_severity(),
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
            span: None,
            server: None,
        };
        Self {
            text: SourceText::new(file, String::new()),
            servers: Vec::new(),
            problems: vec![problem],
            is_unusable: true,
        }
    }

    /// The first error, even if it is not among the shown problems.
    pub(crate) fn first_error(&self) -> Option<Diagnostic> {
        let mut problems = self.problems.iter();
        let error = problems.find(|problem| problem.severity == Severity::Error)?;
        Some(self.diagnostic(error))
    }

    /// Converts the problems to diagnostics. If there are more than [`MAX_PROBLEMS`], problems of the
    /// source as a whole come before problems of entries, errors come first among both, and a last
    /// diagnostic contains the number of omitted problems.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let omitted = self.problems.len().saturating_sub(MAX_PROBLEMS);
        let more = (omitted > 0).then(|| Problem {
            severity: Severity::Warning,
            message: format!("{omitted} more problems not shown"),
            hint: None,
            span: None,
            server: None,
        });
        let mut shown: Vec<&Problem> = self.problems.iter().collect();
        if omitted > 0 {
            shown.sort_by_key(|problem| {
                let is_of_entry = problem.server.is_some();
                (is_of_entry, problem.severity != Severity::Error)
            });
        }
        shown
            .into_iter()
            .take(MAX_PROBLEMS)
            .chain(&more)
            .map(|problem| self.diagnostic(problem))
            .collect()
    }

    fn diagnostic(&self, problem: &Problem) -> Diagnostic {
        Diagnostic {
            severity: problem.severity,
            message: problem.message.clone(),
            hint: problem.hint.clone(),
            origin: Some(match problem.span {
                Some(span) => self.text.origin(span),
                None => SourcePos::whole_file(self.text.file()),
            }),
            snippet: problem.span.map(|span| self.text.redacted_snippet(span)),
            server: problem.server.clone(),
        }
    }
}
