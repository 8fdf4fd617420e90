//! Computes the text edits that insert an item into a list or object, or remove one.
//!
//! Pure functions on text and spans. Invariant: comments outside of a removed item are kept.

use super::format::{JsonStyle, Shape};
use crate::raw::Span;

/// A span of text and its replacement.
#[derive(Debug)]
pub(super) struct TextEdit {
    pub(super) span: Span,
    pub(super) text: String,
}

impl TextEdit {
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

/// Applies edits that do not overlap. Insertions at the same offset keep their order.
pub(super) fn apply(text: &str, mut edits: Vec<TextEdit>) -> String {
    edits.sort_by_key(|edit| edit.span.start);
    let mut edited = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        edited.push_str(text.get(at..edit.span.start).unwrap_or_default());
        edited.push_str(&edit.text);
        at = edit.span.end;
    }
    edited.push_str(text.get(at..).unwrap_or_default());
    edited
}

/// The span of a list or object, brackets included, and the spans of its items.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) span: Span,
    pub(super) items: Vec<Span>,
}

impl Container {
    /// How the items are laid out.
    pub(super) fn shape(&self, text: &str, style: &JsonStyle) -> Shape {
        let has_lines = self
            .gaps()
            .any(|gap| slice(text, gap).contains(['\n', '\r']));
        if !has_lines && !self.items.is_empty() {
            return Shape::Inline {
                spaced: self.is_spaced(text),
            };
        }
        let mut from_last = self.items.iter().rev();
        let indent = match from_last.find(|item| starts_line(text, item.start)) {
            Some(item) => line_indent(text, item.start).to_owned(),
            None => format!(
                "{}{}",
                line_indent(text, self.span.start),
                style.indent_unit
            ),
        };
        Shape::Lines { indent }
    }

    /// The spans between the brackets that belong to no item.
    fn gaps(&self) -> impl Iterator<Item = Span> {
        let starts = std::iter::once(self.span.start + 1).chain(self.items.iter().map(|i| i.end));
        let ends = self.items.iter().map(|item| item.start);
        let ends = ends.chain([self.span.end.saturating_sub(1)]);
        starts.zip(ends).map(|(start, end)| Span { start, end })
    }

    fn is_spaced(&self, text: &str) -> bool {
        slice(text, self.span).contains([' ', '\t'])
    }

    /// Inserts the formatted item `written` after the last item.
    pub(super) fn insert(&self, text: &str, style: &JsonStyle, written: &str) -> Vec<TextEdit> {
        let Some(last) = self.items.last() else {
            return vec![self.insert_first(text, style, written)];
        };
        let comma = comma_after(text, last.end);
        let after = comma.map_or(last.end, |comma| comma + 1);
        let place = end_of_line_comments(text, after);
        let before = space_before_item(&self.shape(text, style), style);
        // Keep the file's trailing-comma style.
        match comma {
            Some(_) => vec![TextEdit::insert(place, format!("{before}{written},"))],
            None => vec![
                TextEdit::insert(last.end, ",".to_owned()),
                TextEdit::insert(place, format!("{before}{written}")),
            ],
        }
    }

    /// Inserts the first item, after any comments.
    fn insert_first(&self, text: &str, style: &JsonStyle, written: &str) -> TextEdit {
        let close = self.span.end.saturating_sub(1);
        let start = end_of_comments(text, self.span.start + 1);
        let indent = line_indent(text, self.span.start);
        let newline = style.newline;
        let filled = format!(
            "{newline}{indent}{}{written}{newline}{indent}",
            style.indent_unit
        );
        TextEdit::replace(Span { start, end: close }, filled)
    }

    /// Removes the item at `index`.
    pub(super) fn remove(&self, text: &str, index: usize) -> Vec<TextEdit> {
        let Some(item) = self.items.get(index).copied() else {
            return Vec::new();
        };
        let comma = comma_after(text, item.end);
        let adjacent = comma.filter(|comma| is_whitespace(text, item.end, *comma));
        let end = adjacent.map_or(item.end, |comma| comma + 1);
        if self.items.len() == 1 && self.is_only_content(text, item.start, end) {
            let inside = TextEdit::delete(self.span.start + 1, self.span.end.saturating_sub(1));
            return vec![inside];
        }
        let mut edits = vec![delete_with_whitespace(
            text,
            item.start,
            end,
            adjacent.is_some(),
        )];
        let other = match (comma, index.checked_sub(1)) {
            (Some(_), _) => comma.filter(|_| adjacent.is_none()),
            // The last item has no trailing comma, so remove the comma of the item before it.
            (None, Some(before)) => self
                .items
                .get(before)
                .and_then(|before| comma_after(text, before.end)),
            (None, None) => None,
        };
        edits.extend(other.map(|comma| TextEdit::delete(comma, comma + 1)));
        edits
    }

    /// Returns true if only whitespace surrounds `start..end` inside the brackets.
    fn is_only_content(&self, text: &str, start: usize, end: usize) -> bool {
        let close = self.span.end.saturating_sub(1);
        is_whitespace(text, self.span.start + 1, start) && is_whitespace(text, end, close)
    }
}

/// The whitespace between a comma and the next item.
pub(super) fn space_before_item(shape: &Shape, style: &JsonStyle) -> String {
    match shape {
        Shape::Lines { indent } => format!("{}{indent}", style.newline),
        Shape::Inline { spaced: true } => " ".to_owned(),
        Shape::Inline { spaced: false } => String::new(),
    }
}

/// Deletes an item and the whitespace around it. Lines that contain nothing else are deleted whole.
fn delete_with_whitespace(text: &str, start: usize, end: usize, with_comma: bool) -> TextEdit {
    let before = text.get(..start).unwrap_or_default();
    let space_start = before.trim_end_matches([' ', '\t']).len();
    let after = text.get(end..).unwrap_or_default();
    let rest = after.trim_start_matches([' ', '\t']);
    let space_end = text.len() - rest.len();
    match (starts_line(text, start), newline_length(rest)) {
        (true, length @ 1..) => TextEdit::delete(space_start, space_end + length),
        (true, _) => TextEdit::delete(start, space_end),
        (false, 0) if with_comma => TextEdit::delete(start, space_end),
        (false, _) => TextEdit::delete(space_start, end),
    }
}

/// Length of the line break at the start of `text`, or 0.
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

fn is_whitespace(text: &str, start: usize, end: usize) -> bool {
    slice(text, Span { start, end }).trim().is_empty()
}

fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind(['\n', '\r']).map_or(0, |index| index + 1)
}

/// The indentation of the line that contains `at`.
pub(super) fn line_indent(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..length).unwrap_or_default()
}

/// Returns true if only spaces and tabs precede `at` on its line. False for the first line of the
/// text.
pub(super) fn starts_line(text: &str, at: usize) -> bool {
    let start = line_start(text, at);
    start > 0 && start + line_indent(text, at).len() == at
}

/// Offset of the comma after `at`, if only whitespace and comments precede it.
fn comma_after(text: &str, at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        let rest = text.get(at..)?;
        let space = rest.len() - rest.trim_start().len();
        let comment = comment_length(rest.trim_start());
        at += space + comment;
        if comment == 0 {
            return text.get(at..)?.starts_with(',').then_some(at);
        }
    }
}

/// Returns the end of the last comment that only whitespace and other comments separate from `at`,
/// or `at` itself if there is none.
fn end_of_comments(text: &str, at: usize) -> usize {
    end_of(text, at, |rest| rest.trim_start())
}

/// Like [`end_of_comments`], but only for comments that start on the same line as `at`.
fn end_of_line_comments(text: &str, at: usize) -> usize {
    end_of(text, at, |rest| rest.trim_start_matches([' ', '\t']))
}

fn end_of(text: &str, mut at: usize, skip_space: fn(&str) -> &str) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let comment = skip_space(rest);
        match comment_length(comment) {
            0 => return at,
            length => at += rest.len() - comment.len() + length,
        }
    }
}

/// Length of the comment at the start of `text`, without its line break; 0 if there is none.
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
