//! Which parts of a source must not be shown: the literal values of variables, headers and the like.
//!
//! A document that was understood is covered exactly. In one that was not, everything is covered that
//! is not known to be harmless by its looks.

use super::source_text::{SourceText, Span};
use super::{RawKind, RawMember, RawValue};
use crate::expand::pieces;
use crate::key_table::lookup;
use crate::secret_detection;

/// The secrets in the entries of a document that was understood.
pub(super) fn in_entries(text: &SourceText, servers: &[RawMember]) -> Vec<Span> {
    let mut spans = Vec::new();
    for member in servers.iter().flat_map(|server| server.value.members()) {
        if lookup::holds_secrets(&member.key) {
            hide_value(text, &member.value, &mut spans);
        } else {
            hide_lookalikes(&member.value, None, &mut spans);
        }
    }
    spans
}

/// Hides texts that hold what looks like a secret. `before` is the text before in a list.
fn hide_lookalikes(value: &RawValue, before: Option<&str>, spans: &mut Vec<Span>) {
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
                hide_lookalikes(item, before, spans);
                before = match &item.kind {
                    RawKind::Text(text) => Some(text),
                    _ => None,
                };
            }
        }
        RawKind::Object(members) => {
            for member in members {
                hide_lookalikes(&member.value, None, spans);
            }
        }
        _ => {}
    }
}

fn hide_value(text: &SourceText, value: &RawValue, spans: &mut Vec<Span>) {
    match &value.kind {
        RawKind::Null | RawKind::Bool(_) => {}
        RawKind::Number(_) => spans.push(value.span),
        RawKind::Text(_) => hide_literals(text, value.span, spans),
        RawKind::List(items) => items.iter().for_each(|item| hide_value(text, item, spans)),
        RawKind::Object(members) => {
            for member in members {
                hide_value(text, &member.value, spans);
            }
        }
    }
}

/// Hides what stands between the quotes, except for references to variables.
fn hide_literals(text: &SourceText, span: Span, spans: &mut Vec<Span>) {
    let mut start = span.start + 1;
    let inside = Span {
        start,
        end: span.end.saturating_sub(1),
    };
    for piece in pieces(text.slice(inside)) {
        let end = start + piece.written().len();
        if !piece.is_plain_reference() {
            spans.push(Span { start, end });
        }
        start = end;
    }
}

/// What may be a secret in a text that is not JSON: every word that is neither a key nor the value of a
/// key whose values may be shown.
pub(super) fn by_looks(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut place = Place::Elsewhere;
    // Whether values under the key that was just met may be shown.
    let mut key = None;
    // The word before, which may be a flag that tells what this one is.
    let mut before = None;
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Mark(mark) => place = place.after(mark, key.take()),
            Token::Word(span) => {
                let word = text.get(span.start..span.end).unwrap_or_default();
                let before_colon = matches!(tokens.peek(), Some(Token::Mark(':')));
                let is_value = matches!(place, Place::Value { .. });
                if before_colon && !is_value && looks_like_key(word) {
                    key = Some(!lookup::holds_secrets(word));
                    place = Place::Elsewhere;
                } else if !place.is_shown()
                    || !secret_detection::find_in_argument(word, before).is_empty()
                {
                    spans.push(span);
                }
                before = Some(word);
                if is_value {
                    place = Place::Elsewhere;
                }
            }
        }
    }
    spans
}

#[derive(Clone, Copy)]
enum Place {
    Elsewhere,
    /// Right behind a colon.
    Value {
        shown: bool,
    },
    /// In the list of a key whose values may be shown.
    ShownList,
}

impl Place {
    fn is_shown(self) -> bool {
        matches!(self, Self::Value { shown: true } | Self::ShownList)
    }

    /// The place behind `mark`, where `key` tells of the key that stands right before it.
    fn after(self, mark: char, key: Option<bool>) -> Self {
        match (mark, self) {
            (':', _) => Self::Value {
                shown: key == Some(true),
            },
            ('[', Self::Value { shown: true }) | (',', Self::ShownList) => Self::ShownList,
            _ => Self::Elsewhere,
        }
    }
}

fn looks_like_key(word: &str) -> bool {
    word.chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '/' | ' '))
}

enum Token {
    /// One of `{}[],:`.
    Mark(char),
    /// What stands between quotes, or between blanks and marks.
    Word(Span),
}

fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let blank = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let start = at + blank;
        let first = rest.chars().next()?;
        if is_mark(first) {
            at = start + 1;
            return Some(Token::Mark(first));
        }
        if first == '"' {
            let inside = quoted_length(rest);
            let span = Span {
                start: start + 1,
                end: start + 1 + inside,
            };
            let closed = text
                .get(span.end..)
                .is_some_and(|behind| behind.starts_with('"'));
            at = span.end + usize::from(closed);
            return Some(Token::Word(span));
        }
        let end = rest.find(|c: char| c.is_whitespace() || c == '"' || is_mark(c));
        at = start + end.unwrap_or(rest.len());
        Some(Token::Word(Span { start, end: at }))
    })
}

fn is_mark(c: char) -> bool {
    matches!(c, '{' | '}' | '[' | ']' | ',' | ':')
}

/// How long the text behind the quote that `rest` begins with is. It ends with its line at the latest.
fn quoted_length(rest: &str) -> usize {
    let inside = rest.get(1..).unwrap_or_default();
    let mut escaped = false;
    let end = inside.find(|c: char| {
        let ends = c == '\n' || (c == '"' && !escaped);
        escaped = c == '\\' && !escaped;
        ends
    });
    end.unwrap_or(inside.len())
}
