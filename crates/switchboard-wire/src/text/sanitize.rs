//! Text from servers, made fit to be shown to a model or on a terminal.
//!
//! Terminal escapes, control characters and invisible characters go; what people write stays byte
//! for byte: emoji sequences, joiners where a script needs them, direction marks beside
//! right-to-left text. It does not judge what the text says, and it does not shorten it.
//!
//! Invariant: sanitising twice is sanitising once. Every choice looks only at what was already kept
//! and at following characters that are never removed.

use std::borrow::Cow;

mod escape;
mod invisible;
#[cfg(test)]
mod tests;

/// Strips what hides or controls. Line ends become `\n`, tabs stay.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    let mut filter = Filter {
        text,
        out: String::new(),
        copied: 0,
    };
    let mut at = 0;
    while let Some(found) = next_suspect(text.as_bytes(), at) {
        at = filter.step(found);
    }
    filter.finish()
}

/// As [`sanitize`], for places of one line: line ends and tabs become spaces too.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    let breaks_line = |letter| matches!(letter, '\n' | '\t' | '\u{2028}' | '\u{2029}');
    match sanitize(text) {
        clean if clean.contains(breaks_line) => Cow::Owned(clean.replace(breaks_line, " ")),
        clean => clean,
    }
}

/// The text on its way through. What is unchanged is copied in runs, and only once there is
/// something to leave out.
struct Filter<'a> {
    text: &'a str,
    out: String,
    /// Up to where `text` is dealt with in `out`.
    copied: usize,
}

/// What becomes of a suspect.
enum Fate {
    Keep,
    KeepThrough(usize),
    Drop,
    DropThrough(usize),
    Newline,
}

impl<'a> Filter<'a> {
    /// Deals with the suspect at `at` and returns where to go on.
    fn step(&mut self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let Some(suspect) = rest.chars().next() else {
            return self.text.len();
        };
        let next = at + suspect.len_utf8();
        match self.judge(
            suspect,
            at,
            rest.get(suspect.len_utf8()..).unwrap_or_default(),
        ) {
            Fate::Keep => next,
            Fate::KeepThrough(length) => at + length,
            Fate::Drop => self.replace(at, next, ""),
            Fate::DropThrough(length) => self.replace(at, at + length, ""),
            Fate::Newline => self.replace(at, next, "\n"),
        }
    }

    fn judge(&self, suspect: char, at: usize, after: &str) -> Fate {
        let keep_if = |kept| if kept { Fate::Keep } else { Fate::Drop };
        match suspect {
            '\r' if after.starts_with('\n') => Fate::Drop,
            '\r' | '\u{85}' => Fate::Newline,
            '\u{1b}' | '\u{80}'..='\u{9f}' => {
                Fate::DropThrough(suspect.len_utf8() + escape::length_after(suspect, after))
            }
            _ if suspect.is_control() => Fate::Drop,
            _ if invisible::is_tag(suspect) => self.judge_tag(at),
            _ if invisible::is_direction_mark(suspect) => keep_if(self.serves_direction(at, after)),
            _ if invisible::depends_on_neighbours(suspect) => {
                let previous = self.kept_before(at).next();
                keep_if(invisible::belongs(suspect, previous, after.chars().next()))
            }
            _ => keep_if(!invisible::is_invisible(suspect)),
        }
    }

    /// Tags are kept only as the flags of England, Scotland and Wales.
    fn judge_tag(&self, at: usize) -> Fate {
        let rest = self.text.get(at..).unwrap_or_default();
        let flag = invisible::SUBDIVISION_FLAGS
            .iter()
            .find(|tags| rest.starts_with(**tags));
        match flag {
            Some(tags) if self.kept_before(at).next() == Some(invisible::BLACK_FLAG) => {
                Fate::KeepThrough(tags.len())
            }
            _ => Fate::Drop,
        }
    }

    /// A direction mark works on the spaces, digits and signs around it, so right-to-left text may
    /// be a few of those away.
    fn serves_direction(&self, at: usize, after: &str) -> bool {
        const REACH: usize = 8;
        let reaches = |letters: &mut dyn Iterator<Item = char>| {
            letters
                .take(REACH)
                .find(|letter| !invisible::is_neutral(*letter))
                .is_some_and(invisible::is_right_to_left)
        };
        let doubled = self
            .kept_before(at)
            .next()
            .is_some_and(invisible::is_direction_mark);
        !doubled && (reaches(&mut self.kept_before(at)) || reaches(&mut after.chars()))
    }

    /// What was kept before `at`, last first.
    fn kept_before(&self, at: usize) -> impl Iterator<Item = char> {
        let pending = self.text.get(self.copied..at).unwrap_or_default();
        pending.chars().rev().chain(self.out.chars().rev())
    }

    fn replace(&mut self, from: usize, to: usize, with: &str) -> usize {
        if self.out.capacity() == 0 {
            self.out.reserve(self.text.len());
        }
        self.out
            .push_str(self.text.get(self.copied..from).unwrap_or_default());
        self.out.push_str(with);
        self.copied = to;
        to
    }

    fn finish(mut self) -> Cow<'a, str> {
        if self.copied == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out
            .push_str(self.text.get(self.copied..).unwrap_or_default());
        Cow::Owned(self.out)
    }
}

/// The next place from `from` on where something may have to go.
fn next_suspect(bytes: &[u8], from: usize) -> Option<usize> {
    const STRIDE: usize = 128;
    let mut at = from;
    for stride in bytes.get(from..)?.chunks(STRIDE) {
        if !is_plain_ascii(stride)
            && let Some(found) = stride.iter().position(|byte| is_suspect(*byte))
        {
            return Some(at + found);
        }
        at += stride.len();
    }
    None
}

/// Without a way out in its middle the loop compiles to a few vector instructions; most text is
/// dealt with here.
fn is_plain_ascii(stride: &[u8]) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    stride.first().is_some_and(|byte| is_plain(*byte))
        && stride.iter().fold(true, |all, byte| all & is_plain(*byte))
}

/// Control characters, and the bytes with which the characters of [`invisible`] begin.
fn is_suspect(byte: u8) -> bool {
    matches!(byte,
        0..b'\t' | b'\x0b'..b' ' | 0x7f
        | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf0 | 0xf3)
}
