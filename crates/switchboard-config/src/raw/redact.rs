//! Finds the spans of a source that must not appear in snippets: literal values of variables,
//! headers and other secrets.
//!
//! In a parsed source, the spans are those of the secret values. In a text that is not parsed, such
//! as one with syntax errors, everything is redacted that is not known to be harmless.

use super::source_text::{SourceText, Span};
use super::{RawKind, RawMember, RawValue};
use crate::expand::segments;
use crate::key_table::lookup;
use crate::secret_detection;

/// The secret spans of parsed entries.
pub(super) fn secret_spans(text: &SourceText, servers: &[RawMember]) -> Vec<Span> {
    let mut spans = Vec::new();
    for member in servers.iter().flat_map(|server| server.value.members()) {
        if lookup::is_secret_key(&member.key) {
            redact_value(text, &member.value, &mut spans);
        } else {
            redact_detected(&member.value, None, &mut spans);
        }
    }
    spans
}

/// Redacts strings that look like they contain a secret. `before` is the preceding string in a
/// list.
fn redact_detected(value: &RawValue, before: Option<&str>, spans: &mut Vec<Span>) {
    match &value.kind {
        RawKind::Text(text) if !secret_detection::find_in_argument(text, before).is_empty() => {
            spans.push(Span {
                start: value.span.start + 1,
                end: value.span.end.saturating_sub(1),
            });
        }
        RawKind::List(items) => {
            let mut before = None;
            for item in items {
                redact_detected(item, before, spans);
                before = match &item.kind {
                    RawKind::Text(text) => Some(text),
                    _ => None,
                };
            }
        }
        RawKind::Object(members) => {
            for member in members {
                redact_detected(&member.value, None, spans);
            }
        }
        _ => {}
    }
}

fn redact_value(text: &SourceText, value: &RawValue, spans: &mut Vec<Span>) {
    match &value.kind {
        RawKind::Null | RawKind::Bool(_) => {}
        RawKind::Number(_) => spans.push(value.span),
        RawKind::Text(_) => redact_literals(text, value.span, spans),
        RawKind::List(items) => items
            .iter()
            .for_each(|item| redact_value(text, item, spans)),
        RawKind::Object(members) => {
            for member in members {
                redact_value(text, &member.value, spans);
            }
        }
    }
}

/// Redacts the literal parts of a string. References to variables stay visible.
fn redact_literals(text: &SourceText, span: Span, spans: &mut Vec<Span>) {
    let mut start = span.start + 1;
    let inside = Span {
        start,
        end: span.end.saturating_sub(1),
    };
    for segment in segments(text.slice(inside)) {
        let end = start + segment.written().len();
        if !segment.is_plain_reference() {
            spans.push(Span { start, end });
        }
        start = end;
    }
}

/// Returns the spans of possible secrets in a text, without parsing it: all words, except keys, and
/// except the values of keys that are known not to be secret. Among these values, those that look
/// like a secret are included.
pub(super) fn redact_unparsed(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut context = TokenContext::Other;
    // Whether the values of the last key may be shown.
    let mut key = None;
    // The preceding word, which may be a flag that names a secret.
    let mut before = None;
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Punct(punct) => context = context.after(punct, key.take()),
            Token::Word(span) => {
                let word = text.get(span.start..span.end).unwrap_or_default();
                let is_before_colon = matches!(tokens.peek(), Some(Token::Punct(':')));
                let is_value = matches!(context, TokenContext::Value { .. });
                if is_before_colon && !is_value && looks_like_key(word) {
                    key = Some(!lookup::is_secret_key(word));
                    context = TokenContext::Other;
                } else if !context.is_shown()
                    || !secret_detection::find_in_argument(word, before).is_empty()
                {
                    spans.push(span);
                }
                before = Some(word);
                if is_value {
                    context = TokenContext::Other;
                }
            }
        }
    }
    spans
}

#[derive(Clone, Copy)]
enum TokenContext {
    Other,
    /// Directly after a colon.
    Value {
        shown: bool,
    },
    /// In a list whose key is not secret.
    ShownList,
}

impl TokenContext {
    fn is_shown(self) -> bool {
        matches!(self, Self::Value { shown: true } | Self::ShownList)
    }

    /// Returns the context after `punct`. If a key precedes `punct`, `key` is `Some`: true if the
    /// values of that key may be shown.
    fn after(self, punct: char, key: Option<bool>) -> Self {
        match (punct, self) {
            (':', _) => Self::Value {
                shown: key == Some(true),
            },
            ('[', Self::Value { shown: true }) | (',', Self::ShownList) => Self::ShownList,
            _ => Self::Other,
        }
    }
}

fn looks_like_key(word: &str) -> bool {
    word.chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '/' | ' '))
}

enum Token {
    /// One of `{}[],:`.
    Punct(char),
    /// The content of a string, or a word outside of strings.
    Word(Span),
}

fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let space = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let start = at + space;
        let first = rest.chars().next()?;
        if is_punct(first) {
            at = start + 1;
            return Some(Token::Punct(first));
        }
        if first == '"' {
            let inside = string_len(rest);
            let span = Span {
                start: start + 1,
                end: start + 1 + inside,
            };
            let closed = text
                .get(span.end..)
                .is_some_and(|after| after.starts_with('"'));
            at = span.end + usize::from(closed);
            return Some(Token::Word(span));
        }
        let end = rest.find(|c: char| c.is_whitespace() || c == '"' || is_punct(c));
        at = start + end.unwrap_or(rest.len());
        Some(Token::Word(Span { start, end: at }))
    })
}

fn is_punct(c: char) -> bool {
    matches!(c, '{' | '}' | '[' | ']' | ',' | ':')
}

/// Length of the string content after the opening quote of `rest`. An unterminated string ends with
/// its line.
fn string_len(rest: &str) -> usize {
    let inside = rest.get(1..).unwrap_or_default();
    let mut escaped = false;
    let end = inside.find(|c: char| {
        let ends = c == '\n' || (c == '"' && !escaped);
        escaped = c == '\\' && !escaped;
        ends
    });
    end.unwrap_or(inside.len())
}
