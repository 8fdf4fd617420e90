//! Parses JSONC bytes into raw entries and reports duplicate keys.

use std::collections::HashMap;
use std::path::Path;

use jsonc_parser::ast;
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseResult, ParseStringErrorKind, parse_to_ast};

use super::source_text::{SourceText, Span};
use super::{ParsedSource, Problem, RawKind, RawMember, RawValue, redact};
use crate::diagnostic::{Diagnostic, Severity};
use crate::nearest::nearest;
use crate::server_name::ServerName;
use crate::text::replace_control_chars;

/// Maximum nesting depth of values.
pub(super) const MAX_DEPTH: usize = 64;
/// Maximum number of servers loaded from one source.
const MAX_SERVERS: usize = 1000;

/// The top-level key that contains the servers.
const SERVERS: &str = "mcpServers";
const EXAMPLE: &str = r#"write { "mcpServers": { "name": { "command": "…" } } }"#;

/// JSON with comments and trailing commas, without any other extension.
pub(super) const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses a source that contains servers. An unusable source is reported with `severity`, except
/// that an empty source is reported with a warning.
pub(super) fn parse(file: Option<&Path>, bytes: &[u8], severity: Severity) -> ParsedSource {
    let mut text = match decode(bytes) {
        Ok(text) => SourceText::new(file, text.to_owned()),
        Err(problem) => return encoding_error_source(file, bytes, problem, severity),
    };
    let mut reader = EntryReader {
        severity,
        duplicate_severity: Severity::Warning,
        problems: Vec::new(),
    };
    let servers = match parse_to_ast(text.as_str(), &CollectOptions::default(), &OPTIONS) {
        Ok(parsed) => reader.read_root(parsed.value.as_ref()),
        Err(error) => return syntax_error_source(file, text.as_str(), &error, severity),
    };
    let is_unusable = servers.is_none();
    let servers = servers.unwrap_or_default();
    let hidden = redact::secret_spans(&text, &servers);
    text.redact(hidden);
    ParsedSource {
        text,
        servers,
        problems: reader.problems,
        is_unusable,
    }
}

/// Parses a source that is one object. Every problem is an error, because the object may contain
/// restrictions.
pub(super) fn parse_object(
    file: Option<&Path>,
    bytes: &[u8],
    example: &str,
) -> (ParsedSource, Option<RawValue>) {
    let severity = Severity::Error;
    let text = match decode(bytes) {
        Ok(text) => SourceText::new(file, text.to_owned()),
        Err(problem) => return (encoding_error_source(file, bytes, problem, severity), None),
    };
    let mut reader = EntryReader {
        severity,
        duplicate_severity: severity,
        problems: Vec::new(),
    };
    let root = match parse_to_ast(text.as_str(), &CollectOptions::default(), &OPTIONS) {
        Ok(parsed) => reader.read_object(parsed.value.as_ref(), example),
        Err(error) => {
            return (
                syntax_error_source(file, text.as_str(), &error, severity),
                None,
            );
        }
    };
    let document = ParsedSource {
        text,
        servers: Vec::new(),
        problems: reader.problems,
        is_unusable: root.is_none(),
    };
    (document, root)
}

/// Returns an unusable source whose only problem is the syntax error.
pub(super) fn syntax_error_source(
    file: Option<&Path>,
    text: &str,
    error: &ParseError,
    severity: Severity,
) -> ParsedSource {
    let mut reader = EntryReader {
        severity,
        duplicate_severity: severity,
        problems: Vec::new(),
    };
    reader.report_syntax_error(error);
    let mut text = SourceText::new(file, text.to_owned());
    let hidden = redact::redact_unparsed(text.as_str());
    text.redact(hidden);
    ParsedSource {
        text,
        servers: Vec::new(),
        problems: reader.problems,
        is_unusable: true,
    }
}

/// Decodes the content of a file that is about to be edited, without the byte order mark.
pub(crate) fn decode_file<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, Box<Diagnostic>> {
    decode(bytes).map_err(|problem| {
        single_diagnostic(&encoding_error_source(
            Some(file),
            bytes,
            problem,
            Severity::Error,
        ))
    })
}

/// Parses the text of a file that is about to be edited.
pub(crate) fn parse_text<'a>(
    file: &Path,
    text: &'a str,
) -> Result<ParseResult<'a>, Box<Diagnostic>> {
    parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| {
        single_diagnostic(&syntax_error_source(
            Some(file),
            text,
            &error,
            Severity::Error,
        ))
    })
}

fn single_diagnostic(document: &ParsedSource) -> Box<Diagnostic> {
    let found = document.problems.first();
    Box::new(document.diagnostic(found.unwrap_or(&Problem {
        severity: Severity::Error,
        message: "the file cannot be read".to_owned(),
        hint: None,
        span: None,
        server: None,
    })))
}

/// Why bytes are not UTF-8 text.
#[derive(Clone, Copy)]
pub(super) enum EncodingError {
    Utf16,
    InvalidUtf8 { at: usize },
}

pub(super) fn decode(bytes: &[u8]) -> Result<&str, EncodingError> {
    let looks_utf16 = matches!(
        bytes,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, ..] | [_, 0, ..]
    );
    if looks_utf16 {
        return Err(EncodingError::Utf16);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    str::from_utf8(bytes).map_err(|error| EncodingError::InvalidUtf8 {
        at: error.valid_up_to(),
    })
}

pub(super) fn encoding_error_source(
    file: Option<&Path>,
    bytes: &[u8],
    problem: EncodingError,
    severity: Severity,
) -> ParsedSource {
    let (message, span, text) = match problem {
        EncodingError::Utf16 => ("file is UTF-16", None, String::new()),
        EncodingError::InvalidUtf8 { at } => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let text = String::from_utf8_lossy(bytes).into_owned();
            let span = Span {
                start: at,
                end: at + char::REPLACEMENT_CHARACTER.len_utf8(),
            };
            ("file is not valid UTF-8", Some(span), text)
        }
    };
    let mut text = SourceText::new(file, text);
    let hidden = redact::redact_unparsed(text.as_str());
    text.redact(hidden);
    ParsedSource {
        text,
        servers: Vec::new(),
        problems: vec![Problem {
            severity,
            message: message.to_owned(),
            hint: Some("save it as UTF-8".to_owned()),
            span,
            server: None,
        }],
        is_unusable: true,
    }
}

/// The span of a value that exceeds [`MAX_DEPTH`].
struct TooDeep(Span);

struct EntryReader {
    severity: Severity,
    /// The severity of a duplicate key.
    duplicate_severity: Severity,
    problems: Vec<Problem>,
}

impl EntryReader {
    /// Returns the servers, or `None` if the source is unusable.
    fn read_root(&mut self, root: Option<&ast::Value<'_>>) -> Option<Vec<RawMember>> {
        let Some(root) = root else {
            self.warn("the file is empty", Some(EXAMPLE), None);
            return None;
        };
        let ast::Value::Object(root) = root else {
            let message = format!("expected an object with `{SERVERS}`");
            self.fail(message, Some(EXAMPLE), span_of(root.range()));
            return None;
        };
        // As usual in JSON, the last duplicate is used.
        let mut found = root
            .properties
            .iter()
            .filter(|prop| prop.name.as_str() == SERVERS);
        let Some(servers) = found.next_back() else {
            self.report_missing(root);
            return Some(Vec::new());
        };
        let again = span_of(servers.name.range());
        for _ in found {
            self.warn_duplicate(SERVERS, again, None);
        }
        let ast::Value::Object(servers) = &servers.value else {
            let message = format!("`{SERVERS}` must be an object");
            self.fail(message, Some(EXAMPLE), span_of(servers.value.range()));
            return None;
        };
        match self.read_servers(servers) {
            Ok(servers) => Some(servers),
            Err(TooDeep(span)) => {
                self.fail_too_deep(span);
                None
            }
        }
    }

    fn read_object(&mut self, root: Option<&ast::Value<'_>>, example: &str) -> Option<RawValue> {
        let hint = format!("write {example}");
        match root {
            None => self.problems.push(Problem {
                severity: self.severity,
                message: "the file is empty".to_owned(),
                hint: Some(hint),
                span: None,
                server: None,
            }),
            Some(object @ ast::Value::Object(_)) => {
                let read = self.read_value(object, 0, None);
                let report = |TooDeep(span)| self.fail_too_deep(span);
                return read.map_err(report).ok();
            }
            Some(other) => {
                let message = "expected an object".to_owned();
                self.fail(message, Some(&hint), span_of(other.range()));
            }
        }
        None
    }

    fn read_servers(&mut self, servers: &ast::Object<'_>) -> Result<Vec<RawMember>, TooDeep> {
        if let Some(first) = servers.properties.get(MAX_SERVERS) {
            // A warning in every scope: the other entries of the source are still loaded.
            self.problems.push(Problem {
                severity: Severity::Warning,
                message: format!("too many servers; only the first {MAX_SERVERS} are loaded"),
                hint: Some(
                    "move the others to another file, and pass it with --mcp-config".to_owned(),
                ),
                span: Some(span_of(first.name.range())),
                server: None,
            });
        }
        let mut members = UniqueMembers::default();
        for prop in servers.properties.iter().take(MAX_SERVERS) {
            let server = ServerName::new(prop.name.as_str()).ok();
            let member = self.read_member(prop, 0, server.as_ref())?;
            if members.is_duplicate(&member) {
                let message = "duplicate server; the last entry is used";
                self.problems.push(Problem {
                    severity: Severity::Warning,
                    message: message.to_owned(),
                    hint: Some("remove or rename one of them".to_owned()),
                    span: Some(member.key_span),
                    server,
                });
            }
            members.push(member);
        }
        Ok(members.list)
    }

    fn read_member(
        &mut self,
        prop: &ast::ObjectProp<'_>,
        depth: usize,
        server: Option<&ServerName>,
    ) -> Result<RawMember, TooDeep> {
        Ok(RawMember {
            key: prop.name.as_str().to_owned(),
            key_span: span_of(prop.name.range()),
            value: self.read_value(&prop.value, depth + 1, server)?,
        })
    }

    fn read_value(
        &mut self,
        value: &ast::Value<'_>,
        depth: usize,
        server: Option<&ServerName>,
    ) -> Result<RawValue, TooDeep> {
        let span = span_of(value.range());
        if depth > MAX_DEPTH {
            return Err(TooDeep(span));
        }
        let kind = match value {
            ast::Value::NullKeyword(_) => RawKind::Null,
            ast::Value::BooleanLit(flag) => RawKind::Bool(flag.value),
            ast::Value::NumberLit(number) => RawKind::Number(number.value.to_owned()),
            ast::Value::StringLit(text) => RawKind::Text(text.value.clone().into_owned()),
            ast::Value::Array(array) => RawKind::List(
                array
                    .elements
                    .iter()
                    .map(|item| self.read_value(item, depth + 1, server))
                    .collect::<Result<_, _>>()?,
            ),
            ast::Value::Object(object) => {
                let mut members = UniqueMembers::default();
                for prop in &object.properties {
                    let member = self.read_member(prop, depth, server)?;
                    if members.is_duplicate(&member) {
                        self.warn_duplicate(&member.key, member.key_span, server);
                    }
                    members.push(member);
                }
                RawKind::Object(members.list)
            }
        };
        Ok(RawValue { span, kind })
    }

    /// Reports a missing `mcpServers`. Files that do not look like MCP config are ignored silently,
    /// except those given on the command line.
    fn report_missing(&mut self, root: &ast::Object<'_>) {
        let keys = || root.properties.iter().map(|prop| prop.name.as_str());
        let misspelt = keys()
            .find(|key| *key == "servers")
            .or_else(|| keys().find(|key| nearest(key, &[SERVERS]).is_some()));
        if let Some(key) = misspelt {
            let span = root.get(key).map(|prop| span_of(prop.name.range()));
            let hint = format!("rename `{}` to `{SERVERS}`", replace_control_chars(key));
            self.warn(
                "no servers loaded: `mcpServers` is missing",
                Some(&hint),
                span,
            );
        } else if let Some(entry) = root.properties.iter().find(|prop| is_server_entry(prop)) {
            let hint = format!(r#"move the entries into {{ "{SERVERS}": {{ … }} }}"#);
            self.warn(
                "no servers loaded: `mcpServers` is missing",
                Some(&hint),
                Some(span_of(entry.name.range())),
            );
        } else if self.severity == Severity::Error {
            self.warn(
                "no servers loaded: `mcpServers` is missing",
                Some(EXAMPLE),
                Some(span_of(root.range())),
            );
        }
    }

    fn report_syntax_error(&mut self, error: &ParseError) {
        let kind = error.kind().to_string();
        let mut characters = kind.chars();
        let first = characters.next().map(|c| c.to_ascii_lowercase());
        let kind: String = first.into_iter().chain(characters).collect();
        let message = format!("not valid JSON: {}", replace_control_chars(&kind));
        self.fail(message, hint_for(error.kind()), span_of(error.range()));
    }

    fn warn_duplicate(&mut self, key: &str, span: Span, server: Option<&ServerName>) {
        self.problems.push(Problem {
            severity: self.duplicate_severity,
            message: format!(
                "duplicate key `{}`; the last one is used",
                replace_control_chars(key)
            ),
            hint: Some("remove one of them".to_owned()),
            span: Some(span),
            server: server.cloned(),
        });
    }

    fn warn(&mut self, message: &str, hint: Option<&str>, span: Option<Span>) {
        self.problems.push(Problem {
            severity: Severity::Warning,
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
            span,
            server: None,
        });
    }

    fn fail_too_deep(&mut self, span: Span) {
        let message = format!("nested more than {MAX_DEPTH} levels deep");
        self.fail(message, None, span);
    }

    fn fail(&mut self, message: String, hint: Option<&str>, span: Span) {
        self.problems.push(Problem {
            severity: self.severity,
            message,
            hint: hint.map(str::to_owned),
            span: Some(span),
            server: None,
        });
    }
}

/// The members of an object, each key once. A later value replaces an earlier one.
#[derive(Default)]
pub(super) struct UniqueMembers {
    pub(super) list: Vec<RawMember>,
    /// Index in `list` by key.
    indices: HashMap<String, usize>,
}

impl UniqueMembers {
    fn is_duplicate(&self, member: &RawMember) -> bool {
        self.indices.contains_key(&member.key)
    }

    pub(super) fn push(&mut self, member: RawMember) {
        let index = self.indices.get(&member.key);
        if let Some(earlier) = index.and_then(|index| self.list.get_mut(*index)) {
            *earlier = member;
        } else {
            self.indices.insert(member.key.clone(), self.list.len());
            self.list.push(member);
        }
    }
}

fn is_server_entry(prop: &ast::ObjectProp<'_>) -> bool {
    match &prop.value {
        ast::Value::Object(value) => value.get("command").is_some() || value.get("url").is_some(),
        _ => false,
    }
}

fn hint_for(kind: &ParseErrorKind) -> Option<&'static str> {
    match kind {
        ParseErrorKind::ExpectedComma => Some("put a comma here"),
        ParseErrorKind::UnterminatedObject => Some("close it with `}`"),
        ParseErrorKind::UnterminatedArray => Some("close it with `]`"),
        ParseErrorKind::UnterminatedCommentBlock => Some("close it with `*/`"),
        ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            Some("close it with `\"`")
        }
        ParseErrorKind::String(ParseStringErrorKind::InvalidEscape) => {
            Some(r"write a backslash as `\\`")
        }
        ParseErrorKind::SingleQuotedStringsNotAllowed
        | ParseErrorKind::ExpectedStringObjectProperty
        | ParseErrorKind::UnexpectedWord => Some("put it in double quotes"),
        ParseErrorKind::NestingDepthExceeded => Some("nest values less deeply"),
        _ => None,
    }
}

pub(crate) fn span_of(range: Range) -> Span {
    Span {
        start: range.start,
        end: range.end,
    }
}
