//! The text of one source, and places in it as people count them.
//!
//! Invariant: what lies in a hidden span never leaves in a snippet.

use std::path::{Path, PathBuf};

use crate::diagnostic::{Origin, Snippet};
use crate::text::replace_control_chars;

/// How much of a long line is shown, in characters.
const SHOWN_CHARS: usize = 160;
/// How much of it is shown before the mark.
const SHOWN_BEFORE: usize = 60;
/// Characters are counted ahead once per block of this many bytes, so that asking for a column costs
/// the same in a file of a single long line.
const BLOCK: usize = 256;

/// A stretch of a source's text, in bytes.
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
    /// Where each line begins.
    line_starts: Vec<usize>,
    /// How many characters stand before each block.
    chars_before: Vec<usize>,
    /// What must not be shown, in order and without overlap.
    hidden: Vec<Span>,
}

impl SourceText {
    pub(crate) fn new(file: Option<&Path>, text: String) -> Self {
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(index, _)| index + 1))
            .collect();
        let chars_before = text
            .as_bytes()
            .chunks(BLOCK)
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
            hidden: Vec::new(),
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

    /// Keeps these spans out of every snippet.
    pub(crate) fn hide(&mut self, mut spans: Vec<Span>) {
        spans.sort_by_key(|span| span.start);
        self.hidden = spans;
    }

    /// Where `span` begins.
    pub(crate) fn origin(&self, span: Span) -> Origin {
        let (line, line_start) = self.line_of(span.start);
        let column = self.chars_until(span.start) - self.chars_until(line_start) + 1;
        Origin {
            file: self.file.clone(),
            line: saturate(line),
            column: saturate(column),
        }
    }

    /// The line that `span` begins in, with the span marked.
    pub(crate) fn snippet(&self, span: Span) -> Snippet {
        let (line, line_start) = self.line_of(span.start);
        let line_end = self
            .line_starts
            .get(line)
            .map_or(self.text.len(), |next| next - 1);
        let start = span.start.min(line_end);
        let before = self.tail(line_start, start);
        let window = self.head(start - before.len(), line_end);
        let cut_before = start - before.len() > line_start;
        let cut_behind = start - before.len() + window.len() < line_end;
        Snippet {
            line_text: format!(
                "{}{}{}",
                if cut_before { "…" } else { "" },
                self.shown(start - before.len(), window),
                if cut_behind { "…" } else { "" },
            )
            .trim_end()
            .to_owned(),
            start_column: saturate(before.chars().count() + usize::from(cut_before) + 1),
            len: self.marked(start, span.end, line_end, before, window),
        }
    }

    /// How many characters of the window are marked. What goes on in the next line is marked by its
    /// first character alone.
    fn marked(&self, start: usize, end: usize, line_end: usize, before: &str, window: &str) -> u32 {
        if end > line_end {
            return 1;
        }
        let marked = self.slice(Span { start, end }).chars().count();
        let shown = window.chars().count() - before.chars().count();
        saturate(marked.min(shown).max(1))
    }

    /// The part of `start..end` that is shown before the mark at `end`.
    fn tail(&self, start: usize, end: usize) -> &str {
        let text = self.slice(Span { start, end });
        if text.len() < SHOWN_CHARS / 2 {
            return text;
        }
        let cut = text.char_indices().rev().nth(SHOWN_BEFORE);
        text.get(cut.map_or(0, |(index, _)| index)..)
            .unwrap_or(text)
    }

    /// As much of `start..end` as is shown.
    fn head(&self, start: usize, end: usize) -> &str {
        let text = self.slice(Span { start, end });
        let cut = text.char_indices().nth(SHOWN_CHARS);
        text.get(..cut.map_or(text.len(), |(index, _)| index))
            .unwrap_or(text)
    }

    /// `window`, which begins at `start`, fit to be printed.
    fn shown(&self, start: usize, window: &str) -> String {
        let first = self.hidden.partition_point(|span| span.end <= start);
        let mut hidden = self.hidden.iter().skip(first).peekable();
        let starred: String = window
            .char_indices()
            .map(|(index, c)| {
                let at = start + index;
                while hidden.next_if(|span| span.end <= at).is_some() {}
                let covered = hidden.peek().is_some_and(|span| span.start <= at);
                if covered && !c.is_whitespace() {
                    '*'
                } else {
                    c
                }
            })
            .collect();
        replace_control_chars(&starred)
    }

    /// The number of the line that `offset` lies in, counted from 1, and where it begins.
    fn line_of(&self, offset: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts.get(line.saturating_sub(1)).copied();
        (line, start.unwrap_or_default())
    }

    fn chars_until(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        let Some(before) = self.chars_before.get(block) else {
            return count_chars(self.text.as_bytes());
        };
        let within = self.text.as_bytes().get(block * BLOCK..offset);
        before + within.map_or(0, count_chars)
    }
}

/// Counts the bytes that begin a character.
fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

fn saturate(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
