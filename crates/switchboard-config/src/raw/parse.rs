//! From bytes to raw entries.

use std::collections::HashMap;
use std::path::Path;

use jsonc_parser::ast;
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseResult, ParseStringErrorKind, parse_to_ast};

use super::source_text::{SourceText, Span};
use super::{Finding, RawDocument, RawKind, RawMember, RawValue, redact};
use crate::diagnostic::{Diagnostic, Severity};
use crate::nearest::nearest;
use crate::server_name::ServerName;
use crate::text::replace_control_chars;

/// How deep values may nest inside `mcpServers`.
pub(super) const MAX_DEPTH: usize = 64;
/// Further servers in one source are not read.
const MAX_SERVERS: usize = 1000;

/// The key that all servers stand under.
const SERVERS: &str = "mcpServers";
const EXAMPLE: &str = r#"write { "mcpServers": { "name": { "command": "…" } } }"#;

/// JSON as it is, with comments and trailing commas and nothing else besides.
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

/// Reads a document; `severity` is that of one which cannot be read.
pub(super) fn parse(file: Option<&Path>, bytes: &[u8], severity: Severity) -> RawDocument {
    let mut text = match decode(bytes) {
        Ok(text) => SourceText::new(file, text.to_owned()),
        Err(problem) => return undecodable(file, bytes, problem, severity),
    };
    let mut reader = Reader {
        severity,
        twice: Severity::Warning,
        findings: Vec::new(),
    };
    let servers = match parse_to_ast(text.as_str(), &CollectOptions::default(), &OPTIONS) {
        Ok(parsed) => reader.read_root(parsed.value.as_ref()),
        Err(error) => return broken(file, text.as_str(), &error, severity),
    };
    let is_broken = servers.is_none();
    let servers = servers.unwrap_or_default();
    let hidden = redact::in_entries(&text, &servers);
    text.hide(hidden);
    RawDocument {
        text,
        servers,
        findings: reader.findings,
        is_broken,
    }
}

/// Reads a document that is one object, and nothing that can be told of it is a trifle: what it says may
/// be what keeps somebody out.
pub(super) fn parse_object(
    file: Option<&Path>,
    bytes: &[u8],
    example: &str,
) -> (RawDocument, Option<RawValue>) {
    let severity = Severity::Error;
    let text = match decode(bytes) {
        Ok(text) => SourceText::new(file, text.to_owned()),
        Err(problem) => return (undecodable(file, bytes, problem, severity), None),
    };
    let mut reader = Reader {
        severity,
        twice: severity,
        findings: Vec::new(),
    };
    let root = match parse_to_ast(text.as_str(), &CollectOptions::default(), &OPTIONS) {
        Ok(parsed) => reader.read_object(parsed.value.as_ref(), example),
        Err(error) => return (broken(file, text.as_str(), &error, severity), None),
    };
    let document = RawDocument {
        text,
        servers: Vec::new(),
        findings: reader.findings,
        is_broken: root.is_none(),
    };
    (document, root)
}

/// A document that is not JSON.
pub(super) fn broken(
    file: Option<&Path>,
    text: &str,
    error: &ParseError,
    severity: Severity,
) -> RawDocument {
    let mut reader = Reader {
        severity,
        twice: severity,
        findings: Vec::new(),
    };
    reader.report_broken(error);
    let mut text = SourceText::new(file, text.to_owned());
    let hidden = redact::by_looks(text.as_str());
    text.hide(hidden);
    RawDocument {
        text,
        servers: Vec::new(),
        findings: reader.findings,
        is_broken: true,
    }
}

/// The text of a file that is to be edited, without the mark that some editors put before it.
pub(crate) fn decode_file<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, Box<Diagnostic>> {
    decode(bytes)
        .map_err(|problem| only_finding(&undecodable(Some(file), bytes, problem, Severity::Error)))
}

/// The syntax of a file that is to be edited.
pub(crate) fn parse_text<'a>(
    file: &Path,
    text: &'a str,
) -> Result<ParseResult<'a>, Box<Diagnostic>> {
    parse_to_ast(text, &CollectOptions::default(), &OPTIONS)
        .map_err(|error| only_finding(&broken(Some(file), text, &error, Severity::Error)))
}

fn only_finding(document: &RawDocument) -> Box<Diagnostic> {
    let found = document.findings.first();
    Box::new(document.diagnostic(found.unwrap_or(&Finding {
        severity: Severity::Error,
        message: "the file cannot be read".to_owned(),
        hint: None,
        span: None,
        server: None,
    })))
}

/// Why bytes are not text.
#[derive(Clone, Copy)]
pub(super) enum Undecodable {
    Utf16,
    InvalidUtf8 { at: usize },
}

pub(super) fn decode(bytes: &[u8]) -> Result<&str, Undecodable> {
    let looks_utf16 = matches!(
        bytes,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, ..] | [_, 0, ..]
    );
    if looks_utf16 {
        return Err(Undecodable::Utf16);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    str::from_utf8(bytes).map_err(|error| Undecodable::InvalidUtf8 {
        at: error.valid_up_to(),
    })
}

pub(super) fn undecodable(
    file: Option<&Path>,
    bytes: &[u8],
    problem: Undecodable,
    severity: Severity,
) -> RawDocument {
    let (message, span, text) = match problem {
        Undecodable::Utf16 => ("the file is written in UTF-16", None, String::new()),
        Undecodable::InvalidUtf8 { at } => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let text = String::from_utf8_lossy(bytes).into_owned();
            let span = Span {
                start: at,
                end: at + char::REPLACEMENT_CHARACTER.len_utf8(),
            };
            ("the file is not valid UTF-8", Some(span), text)
        }
    };
    let mut text = SourceText::new(file, text);
    let hidden = redact::by_looks(text.as_str());
    text.hide(hidden);
    RawDocument {
        text,
        servers: Vec::new(),
        findings: vec![Finding {
            severity,
            message: message.to_owned(),
            hint: Some("save it as UTF-8".to_owned()),
            span,
            server: None,
        }],
        is_broken: true,
    }
}

/// A value nests deeper than is read.
struct TooDeep(Span);

struct Reader {
    severity: Severity,
    /// How bad it is when a key is written twice.
    twice: Severity,
    findings: Vec<Finding>,
}

impl Reader {
    /// `None`: it is not the kind of document that servers stand in.
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
        // As everywhere in JSON, the last one counts.
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
            self.warn_twice(SERVERS, again, None);
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
            None => self.findings.push(Finding {
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
            let message = format!("only the first {MAX_SERVERS} servers are read");
            self.fail(message, None, span_of(first.name.range()));
        }
        let mut members = Members::default();
        for prop in servers.properties.iter().take(MAX_SERVERS) {
            let server = ServerName::new(prop.name.as_str()).ok();
            let member = self.read_member(prop, 0, server.as_ref())?;
            if members.is_twice(&member) {
                let message = "the server is written twice; the last entry counts";
                self.findings.push(Finding {
                    severity: Severity::Warning,
                    message: message.to_owned(),
                    hint: Some("remove one of the two or give it another name".to_owned()),
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
                let mut members = Members::default();
                for prop in &object.properties {
                    let member = self.read_member(prop, depth, server)?;
                    if members.is_twice(&member) {
                        self.warn_twice(&member.key, member.key_span, server);
                    }
                    members.push(member);
                }
                RawKind::Object(members.list)
            }
        };
        Ok(RawValue { span, kind })
    }

    /// `mcpServers` is missing. Silent when the file looks like something else altogether, unless it was
    /// named as one that has servers.
    fn report_missing(&mut self, root: &ast::Object<'_>) {
        let keys = || root.properties.iter().map(|prop| prop.name.as_str());
        let lookalike = keys()
            .find(|key| *key == "servers")
            .or_else(|| keys().find(|key| nearest(key, &[SERVERS]).is_some()));
        if let Some(key) = lookalike {
            let span = root.get(key).map(|prop| span_of(prop.name.range()));
            let hint = format!("rename `{}` to `{SERVERS}`", replace_control_chars(key));
            self.warn(
                "no servers are read: `mcpServers` is missing",
                Some(&hint),
                span,
            );
        } else if let Some(entry) = root.properties.iter().find(|prop| looks_like_entry(prop)) {
            let hint = format!(r#"put the entries into {{ "{SERVERS}": {{ … }} }}"#);
            self.warn(
                "no servers are read: `mcpServers` is missing",
                Some(&hint),
                Some(span_of(entry.name.range())),
            );
        } else if self.severity == Severity::Error {
            self.warn(
                "no servers are read: `mcpServers` is missing",
                Some(EXAMPLE),
                Some(span_of(root.range())),
            );
        }
    }

    fn report_broken(&mut self, error: &ParseError) {
        let kind = error.kind().to_string();
        let mut letters = kind.chars();
        let first = letters.next().map(|c| c.to_ascii_lowercase());
        let kind: String = first.into_iter().chain(letters).collect();
        let message = format!("not valid JSON: {}", replace_control_chars(&kind));
        self.fail(message, hint_for(error.kind()), span_of(error.range()));
    }

    fn warn_twice(&mut self, key: &str, span: Span, server: Option<&ServerName>) {
        self.findings.push(Finding {
            severity: self.twice,
            message: format!(
                "the key `{}` is written twice; the last one counts",
                replace_control_chars(key)
            ),
            hint: Some("remove one of the two".to_owned()),
            span: Some(span),
            server: server.cloned(),
        });
    }

    fn warn(&mut self, message: &str, hint: Option<&str>, span: Option<Span>) {
        self.findings.push(Finding {
            severity: Severity::Warning,
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
            span,
            server: None,
        });
    }

    fn fail_too_deep(&mut self, span: Span) {
        let message = format!("values nest more than {MAX_DEPTH} levels deep");
        self.fail(message, None, span);
    }

    fn fail(&mut self, message: String, hint: Option<&str>, span: Span) {
        self.findings.push(Finding {
            severity: self.severity,
            message,
            hint: hint.map(str::to_owned),
            span: Some(span),
            server: None,
        });
    }
}

/// The members of an object, each key once: a later value takes the place of an earlier one.
#[derive(Default)]
pub(super) struct Members {
    pub(super) list: Vec<RawMember>,
    places: HashMap<String, usize>,
}

impl Members {
    fn is_twice(&self, member: &RawMember) -> bool {
        self.places.contains_key(&member.key)
    }

    pub(super) fn push(&mut self, member: RawMember) {
        let place = self.places.get(&member.key);
        if let Some(earlier) = place.and_then(|place| self.list.get_mut(*place)) {
            *earlier = member;
        } else {
            self.places.insert(member.key.clone(), self.list.len());
            self.list.push(member);
        }
    }
}

fn looks_like_entry(prop: &ast::ObjectProp<'_>) -> bool {
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
