//! Removes terminal escapes, control characters and invisible characters from server text.
//!
//! Legitimate text stays byte for byte: emoji sequences, joiners where a script needs them,
//! direction marks beside right-to-left text. The result may be shown to a model or printed on a
//! terminal.
//!
//! Invariant: sanitising is idempotent. Each decision looks only at characters that were kept and
//! at following characters that are never removed.

use std::borrow::Cow;

mod escape;
mod invisible;
#[cfg(test)]
mod tests;

/// Removes escape sequences, control characters and invisible characters. Every kind of line break
/// becomes `\n`; tabs stay.
#[inline]
pub fn sanitize(text: &str) -> Cow<'_, str> {
    match next_candidate(text.as_bytes(), 0) {
        None => Cow::Borrowed(text),
        Some(first) => sanitize_from(text, first),
    }
}

fn sanitize_from(text: &str, first: usize) -> Cow<'_, str> {
    let mut sanitizer = Sanitizer {
        text,
        output: String::new(),
        input_consumed: 0,
    };
    let mut candidate = Some(first);
    while let Some(at) = candidate {
        let next = sanitizer.step(at);
        candidate = next_candidate(text.as_bytes(), next);
    }
    sanitizer.finish()
}

/// Like [`sanitize`], for a field of one line: line breaks and tabs become spaces.
#[inline]
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    let breaks_line = |letter| matches!(letter, '\n' | '\t' | '\u{2028}' | '\u{2029}');
    match sanitize(text) {
        clean if clean.contains(breaks_line) => Cow::Owned(clean.replace(breaks_line, " ")),
        clean => clean,
    }
}

/// Copies the text without the removed characters. Kept text is copied in runs, and not before the
/// first removal.
struct Sanitizer<'a> {
    text: &'a str,
    output: String,
    /// Everything in `text` before this offset is in `output` or was removed.
    input_consumed: usize,
}

/// What happens to a candidate character.
enum CharAction {
    Keep,
    /// Keep this many bytes, starting at the candidate.
    KeepBytes(usize),
    Drop,
    /// Drop this many bytes, starting at the candidate.
    DropBytes(usize),
    Newline,
}

impl<'a> Sanitizer<'a> {
    /// Handles the candidate at `at` and returns the offset to continue from.
    fn step(&mut self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let Some(candidate) = rest.chars().next() else {
            return self.text.len();
        };
        let length = candidate.len_utf8();
        let after = rest.get(length..).unwrap_or_default();
        match self.classify(candidate, at, after) {
            CharAction::Keep => at + length,
            CharAction::KeepBytes(bytes) => at + bytes,
            CharAction::Drop => self.replace(at, at + length, ""),
            CharAction::DropBytes(bytes) => self.replace(at, at + bytes, ""),
            CharAction::Newline => self.replace(at, at + length, "\n"),
        }
    }

    fn classify(&self, candidate: char, at: usize, after: &str) -> CharAction {
        let keep_if = |kept| {
            if kept {
                CharAction::Keep
            } else {
                CharAction::Drop
            }
        };
        match candidate {
            '\r' if after.starts_with('\n') => CharAction::Drop,
            '\r' | '\u{85}' => CharAction::Newline,
            '\u{1b}' | '\u{80}'..='\u{9f}' => {
                CharAction::DropBytes(candidate.len_utf8() + escape::length_after(candidate, after))
            }
            _ if candidate.is_control() => CharAction::Drop,
            _ if invisible::is_tag(candidate) => self.classify_tag(at),
            _ if invisible::is_direction_mark(candidate) => {
                keep_if(self.is_near_rtl_text(at, after))
            }
            _ if invisible::needs_context(candidate) => {
                let previous = self.kept_chars_before(at).next();
                let next = after.chars().next();
                keep_if(invisible::is_legitimate(candidate, previous, next))
            }
            _ => keep_if(!invisible::is_invisible(candidate)),
        }
    }

    /// Keeps tags only in the flags of England, Scotland and Wales.
    fn classify_tag(&self, at: usize) -> CharAction {
        let rest = self.text.get(at..).unwrap_or_default();
        let flag = invisible::SUBDIVISION_FLAGS
            .iter()
            .find(|tags| rest.starts_with(**tags));
        match flag {
            Some(tags) if self.kept_chars_before(at).next() == Some(invisible::BLACK_FLAG) => {
                CharAction::KeepBytes(tags.len())
            }
            _ => CharAction::Drop,
        }
    }

    /// Whether a direction mark has an effect. It acts on the neutral characters around it, so
    /// right-to-left text may be a few of those away.
    fn is_near_rtl_text(&self, at: usize, after: &str) -> bool {
        const MAX_DISTANCE: usize = 8;
        let reaches_rtl = |letters: &mut dyn Iterator<Item = char>| {
            letters
                .take(MAX_DISTANCE)
                .find(|letter| !invisible::is_neutral(*letter))
                .is_some_and(invisible::is_right_to_left)
        };
        let follows_mark = self
            .kept_chars_before(at)
            .next()
            .is_some_and(invisible::is_direction_mark);
        !follows_mark
            && (reaches_rtl(&mut self.kept_chars_before(at)) || reaches_rtl(&mut after.chars()))
    }

    /// The characters kept before `at`, last one first.
    fn kept_chars_before(&self, at: usize) -> impl Iterator<Item = char> {
        let pending = self.text.get(self.input_consumed..at).unwrap_or_default();
        pending.chars().rev().chain(self.output.chars().rev())
    }

    fn replace(&mut self, from: usize, to: usize, with: &str) -> usize {
        if self.output.capacity() == 0 {
            self.output.reserve(self.text.len());
        }
        let unchanged = self.text.get(self.input_consumed..from);
        self.output.push_str(unchanged.unwrap_or_default());
        self.output.push_str(with);
        self.input_consumed = to;
        to
    }

    fn finish(mut self) -> Cow<'a, str> {
        if self.input_consumed == 0 {
            return Cow::Borrowed(self.text);
        }
        let rest = self.text.get(self.input_consumed..);
        self.output.push_str(rest.unwrap_or_default());
        Cow::Owned(self.output)
    }
}

/// Returns the offset of the next character, from `from` on, that may have to be removed.
#[inline]
fn next_candidate(bytes: &[u8], from: usize) -> Option<usize> {
    const STRIDE: usize = 128;
    let mut at = from;
    for stride in bytes.get(from..)?.chunks(STRIDE) {
        if !is_plain_ascii(stride)
            && let Some(found) = stride.iter().position(|byte| starts_candidate(*byte))
        {
            return Some(at + found);
        }
        at += stride.len();
    }
    None
}

/// Whether all bytes are printable ASCII, tabs or line feeds. The loop has no early exit, so that
/// it compiles to vector instructions; most text takes this path.
#[inline]
fn is_plain_ascii(stride: &[u8]) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    stride.first().is_some_and(|byte| is_plain(*byte))
        && stride.iter().fold(true, |all, byte| all & is_plain(*byte))
}

/// Whether a byte is a control character other than a tab or line feed, or the first byte of a
/// character listed in [`invisible`].
fn starts_candidate(byte: u8) -> bool {
    matches!(byte,
        0..b'\t' | b'\x0b'..b' ' | 0x7f
        | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf0 | 0xf3)
}
