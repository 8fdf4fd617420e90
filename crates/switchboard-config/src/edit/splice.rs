//! Which bytes of a text change when something joins or leaves a list or an object.
//!
//! Plain functions on text and spans. Invariant: comments outside of what is removed stay.

use super::format::{Layout, Shape};
use crate::raw::Span;

/// A stretch of text and what takes its place.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) span: Span,
    pub(super) text: String,
}

impl Change {
    pub(super) fn replace(span: Span, text: String) -> Self {
        Self { span, text }
    }

    fn insert(at: usize, text: String) -> Self {
        Self::replace(Span { start: at, end: at }, text)
    }

    fn delete(start: usize, end: usize) -> Self {
        Self::replace(Span { start, end }, String::new())
    }
}

/// The text after all changes, which do not overlap. Those at one place come in their order.
pub(super) fn apply(text: &str, mut changes: Vec<Change>) -> String {
    changes.sort_by_key(|change| change.span.start);
    let mut changed = String::with_capacity(text.len());
    let mut at = 0;
    for change in changes {
        changed.push_str(text.get(at..change.span.start).unwrap_or_default());
        changed.push_str(&change.text);
        at = change.span.end;
    }
    changed.push_str(text.get(at..).unwrap_or_default());
    changed
}

/// A list or an object: its own span, brackets included, and those of what it holds.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) span: Span,
    pub(super) items: Vec<Span>,
}

impl Container {
    /// How what it holds is written.
    pub(super) fn shape(&self, text: &str, layout: &Layout) -> Shape {
        let has_lines = self
            .gaps()
            .any(|gap| slice(text, gap).contains(['\n', '\r']));
        if !has_lines && !self.items.is_empty() {
            return Shape::Inline {
                spaced: self.is_spaced(text),
            };
        }
        let mut from_last = self.items.iter().rev();
        let indent = match from_last.find(|item| begins_line(text, item.start)) {
            Some(item) => line_indent(text, item.start).to_owned(),
            None => format!("{}{}", line_indent(text, self.span.start), layout.unit),
        };
        Shape::Lines { indent }
    }

    /// What stands between the brackets besides the items.
    fn gaps(&self) -> impl Iterator<Item = Span> {
        let starts = std::iter::once(self.span.start + 1).chain(self.items.iter().map(|i| i.end));
        let ends = self.items.iter().map(|item| item.start);
        let ends = ends.chain([self.span.end.saturating_sub(1)]);
        starts.zip(ends).map(|(start, end)| Span { start, end })
    }

    fn is_spaced(&self, text: &str) -> bool {
        slice(text, self.span).contains([' ', '\t'])
    }

    /// Adds what is `written` behind the last item.
    pub(super) fn insert(&self, text: &str, layout: &Layout, written: &str) -> Vec<Change> {
        let Some(last) = self.items.last() else {
            return vec![self.fill(text, layout, written)];
        };
        let comma = comma_behind(text, last.end);
        let behind = comma.map_or(last.end, |comma| comma + 1);
        let place = end_of_remarks(text, behind);
        let before = match self.shape(text, layout) {
            Shape::Lines { indent } => format!("{}{indent}", layout.newline),
            Shape::Inline { spaced: true } => " ".to_owned(),
            Shape::Inline { spaced: false } => String::new(),
        };
        // Who ends the last item with a comma wants the next one to end so too.
        match comma {
            Some(_) => vec![Change::insert(place, format!("{before}{written},"))],
            None => vec![
                Change::insert(last.end, ",".to_owned()),
                Change::insert(place, format!("{before}{written}")),
            ],
        }
    }

    /// The first item, behind comments that may be there.
    fn fill(&self, text: &str, layout: &Layout, written: &str) -> Change {
        let close = self.span.end.saturating_sub(1);
        let start = end_of_comments(text, self.span.start + 1);
        let indent = line_indent(text, self.span.start);
        let newline = layout.newline;
        let filled = format!("{newline}{indent}{}{written}{newline}{indent}", layout.unit);
        Change::replace(Span { start, end: close }, filled)
    }

    /// Takes out the item at `index`.
    pub(super) fn remove(&self, text: &str, index: usize) -> Vec<Change> {
        let Some(item) = self.items.get(index).copied() else {
            return Vec::new();
        };
        let comma = comma_behind(text, item.end);
        let adjacent = comma.filter(|comma| is_blank(text, item.end, *comma));
        let end = adjacent.map_or(item.end, |comma| comma + 1);
        if self.items.len() == 1 && self.is_all(text, item.start, end) {
            let inside = Change::delete(self.span.start + 1, self.span.end.saturating_sub(1));
            return vec![inside];
        }
        let mut changes = vec![widen(text, item.start, end, adjacent.is_some())];
        let other = match (comma, index.checked_sub(1)) {
            (Some(_), _) => comma.filter(|_| adjacent.is_none()),
            // The last one has none, so the one before it must lose its own.
            (None, Some(before)) => self
                .items
                .get(before)
                .and_then(|before| comma_behind(text, before.end)),
            (None, None) => None,
        };
        changes.extend(other.map(|comma| Change::delete(comma, comma + 1)));
        changes
    }

    /// Whether there is nothing but blanks around `start..end`.
    fn is_all(&self, text: &str, start: usize, end: usize) -> bool {
        let close = self.span.end.saturating_sub(1);
        is_blank(text, self.span.start + 1, start) && is_blank(text, end, close)
    }
}

/// Takes out an item and the blanks that it leaves: whole lines, if it has them for itself.
fn widen(text: &str, start: usize, end: usize, with_comma: bool) -> Change {
    let before = text.get(..start).unwrap_or_default();
    let blank_start = before.trim_end_matches([' ', '\t']).len();
    let behind = text.get(end..).unwrap_or_default();
    let rest = behind.trim_start_matches([' ', '\t']);
    let blank_end = text.len() - rest.len();
    match (begins_line(text, start), newline_length(rest)) {
        (true, length @ 1..) => Change::delete(blank_start, blank_end + length),
        (true, _) => Change::delete(start, blank_end),
        (false, 0) if with_comma => Change::delete(start, blank_end),
        (false, _) => Change::delete(blank_start, end),
    }
}

/// How long the line end is that `text` begins with.
fn newline_length(text: &str) -> usize {
    if text.starts_with("\r\n") {
        2
    } else {
        usize::from(text.starts_with(['\n', '\r']))
    }
}

fn slice(text: &str, span: Span) -> &str {
    text.get(span.start..span.end).unwrap_or_default()
}

fn is_blank(text: &str, start: usize, end: usize) -> bool {
    slice(text, Span { start, end }).trim().is_empty()
}

fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind(['\n', '\r']).map_or(0, |index| index + 1)
}

/// The blanks that the line of `at` begins with.
pub(super) fn line_indent(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..length).unwrap_or_default()
}

/// Whether nothing but blanks stands before `at` in its line.
pub(super) fn begins_line(text: &str, at: usize) -> bool {
    let start = line_start(text, at);
    start > 0 && start + line_indent(text, at).len() == at
}

/// Where the comma behind `at` stands, if the next thing is one.
fn comma_behind(text: &str, at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        let rest = text.get(at..)?;
        let blanks = rest.len() - rest.trim_start().len();
        let comment = comment_length(rest.trim_start());
        at += blanks + comment;
        if comment == 0 {
            return text.get(at..)?.starts_with(',').then_some(at);
        }
    }
}

/// Behind the last comment that follows `at`, or `at` itself.
fn end_of_comments(text: &str, at: usize) -> usize {
    end_of(text, at, |rest| rest.trim_start())
}

/// Behind the last comment that follows `at` in the same line, or `at` itself.
fn end_of_remarks(text: &str, at: usize) -> usize {
    end_of(text, at, |rest| rest.trim_start_matches([' ', '\t']))
}

fn end_of(text: &str, mut at: usize, skip_blanks: fn(&str) -> &str) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let comment = skip_blanks(rest);
        match comment_length(comment) {
            0 => return at,
            length => at += rest.len() - comment.len() + length,
        }
    }
}

/// How long the comment is that `text` begins with; its line end is not part of one.
fn comment_length(text: &str) -> usize {
    if text.starts_with("//") {
        text.find(['\n', '\r']).unwrap_or(text.len())
    } else if let Some(inside) = text.strip_prefix("/*") {
        inside
            .find("*/")
            .map_or(text.len(), |length| length + "/**/".len())
    } else {
        0
    }
}
