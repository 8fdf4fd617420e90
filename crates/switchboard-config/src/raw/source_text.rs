//! Maps byte offsets of a source to line, column and redacted snippet.
//!
//! Invariant: text in a redacted span never appears in a snippet.

use std::path::{Path, PathBuf};

use crate::diagnostic::{Snippet, SourcePos};
use crate::text::replace_control_chars;

/// Maximum length of a snippet in characters.
const MAX_SNIPPET_CHARS: usize = 160;
/// Number of characters shown before the marked text of a long line.
const CHARS_BEFORE_MARK: usize = 60;
/// Size in bytes of the blocks whose character counts are precomputed. Without these counts,
/// computing columns in a file with one long line would take quadratic time.
const CHAR_INDEX_STEP: usize = 256;

/// A byte range of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The text of one source.
#[derive(Debug)]
pub(crate) struct SourceText {
    file: Option<PathBuf>,
    text: String,
    /// Byte offset of the start of each line.
    line_starts: Vec<usize>,
    /// For each block of [`CHAR_INDEX_STEP`] bytes, the number of characters before the block.
    chars_before: Vec<usize>,
    /// Spans that must not be shown, sorted and without overlap.
    redacted_spans: Vec<Span>,
}

impl SourceText {
    pub(crate) fn new(file: Option<&Path>, text: String) -> Self {
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(index, _)| index + 1))
            .collect();
        let chars_before = text
            .as_bytes()
            .chunks(CHAR_INDEX_STEP)
            .scan(0, |count, block| {
                let before = *count;
                *count += count_chars(block);
                Some(before)
            })
            .collect();
        Self {
            file: file.map(Path::to_path_buf),
            text,
            line_starts,
            chars_before,
            redacted_spans: Vec::new(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(crate) fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Replaces these spans with stars in every snippet.
    pub(crate) fn redact(&mut self, mut spans: Vec<Span>) {
        spans.sort_by_key(|span| span.start);
        self.redacted_spans = spans;
    }

    /// The position of the start of `span`.
    pub(crate) fn origin(&self, span: Span) -> SourcePos {
        let (line, line_start) = self.line_of(span.start);
        let column = self.chars_until(span.start) - self.chars_until(line_start) + 1;
        SourcePos {
            file: self.file.clone(),
            line: saturate(line),
            column: saturate(column),
        }
    }

    /// The line that contains the start of `span`, with the span marked.
    pub(crate) fn redacted_snippet(&self, span: Span) -> Snippet {
        let (line, line_start) = self.line_of(span.start);
        let line_end = self
            .line_starts
            .get(line)
            .map_or(self.text.len(), |next| next - 1);
        let start = span.start.min(line_end);
        let before = self.tail(line_start, start);
        let window = self.head(start - before.len(), line_end);
        let cut_before = start - before.len() > line_start;
        let cut_after = start - before.len() + window.len() < line_end;
        Snippet {
            line_text: format!(
                "{}{}{}",
                if cut_before { "…" } else { "" },
                self.render_window(start - before.len(), window),
                if cut_after { "…" } else { "" },
            )
            .trim_end()
            .to_owned(),
            start_column: saturate(before.chars().count() + usize::from(cut_before) + 1),
            len: self.marked(start, span.end, line_end, before, window),
        }
    }

    /// Number of marked characters. Only the first character of a span over several lines is
    /// marked.
    fn marked(&self, start: usize, end: usize, line_end: usize, before: &str, window: &str) -> u32 {
        if end > line_end {
            return 1;
        }
        let marked = self.slice(Span { start, end }).chars().count();
        let shown = window.chars().count() - before.chars().count();
        saturate(marked.min(shown).max(1))
    }

    /// Returns the text in `start..end`. If it is long, returns only about the last
    /// [`CHARS_BEFORE_MARK`] characters.
    fn tail(&self, start: usize, end: usize) -> &str {
        let text = self.slice(Span { start, end });
        if text.len() < MAX_SNIPPET_CHARS / 2 {
            return text;
        }
        let cut = text.char_indices().rev().nth(CHARS_BEFORE_MARK);
        text.get(cut.map_or(0, |(index, _)| index)..)
            .unwrap_or(text)
    }

    /// Returns the first [`MAX_SNIPPET_CHARS`] characters of the text in `start..end`.
    fn head(&self, start: usize, end: usize) -> &str {
        let text = self.slice(Span { start, end });
        let cut = text.char_indices().nth(MAX_SNIPPET_CHARS);
        text.get(..cut.map_or(text.len(), |(index, _)| index))
            .unwrap_or(text)
    }

    /// Makes `window`, which starts at offset `start`, safe to print.
    fn render_window(&self, start: usize, window: &str) -> String {
        let first = self
            .redacted_spans
            .partition_point(|span| span.end <= start);
        let mut redacted_spans = self.redacted_spans.iter().skip(first).peekable();
        let starred: String = window
            .char_indices()
            .map(|(index, c)| {
                let at = start + index;
                while redacted_spans.next_if(|span| span.end <= at).is_some() {}
                let covered = redacted_spans.peek().is_some_and(|span| span.start <= at);
                if covered && !c.is_whitespace() {
                    '*'
                } else {
                    c
                }
            })
            .collect();
        replace_control_chars(&starred)
    }

    /// Returns the number of the line that contains `offset`, counted from 1, and the byte offset
    /// where that line starts.
    fn line_of(&self, offset: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts.get(line.saturating_sub(1)).copied();
        (line, start.unwrap_or_default())
    }

    fn chars_until(&self, offset: usize) -> usize {
        let block = offset / CHAR_INDEX_STEP;
        let Some(before) = self.chars_before.get(block) else {
            return count_chars(self.text.as_bytes());
        };
        let within = self.text.as_bytes().get(block * CHAR_INDEX_STEP..offset);
        before + within.map_or(0, count_chars)
    }
}

/// Counts characters: all bytes except UTF-8 continuation bytes.
fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

fn saturate(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
