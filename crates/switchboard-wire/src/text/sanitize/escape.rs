//! Measures the length of terminal escape sequences.
//!
//! Recognises both forms of an introducer: `ESC` with a second character, and the single C1
//! characters U+0080 to U+009F. Removing the sequence is up to the caller.
//!
//! Invariant: measuring all sequences of a text takes linear time, because the search for a
//! terminator stops at the next introducer.

const ESC: char = '\u{1b}';
const BEL: char = '\u{7}';
const CANCEL: char = '\u{18}';
const SUBSTITUTE: char = '\u{1a}';
const STRING_TERMINATOR: char = '\u{9c}';

/// The kind of sequence that an introducer starts.
enum Sequence {
    /// Parameters, then one final character: colours, cursor movement.
    Control,
    /// Any text up to a terminator: window titles, links, the clipboard.
    String { ends_at_bell: bool },
    /// Intermediate characters, then one final character: character sets and the like.
    Short,
    /// The introducer alone.
    Single,
}

/// Returns how many bytes of `after` belong to the sequence that `introducer` starts.
pub(super) fn length_after(introducer: char, after: &str) -> usize {
    if introducer != ESC {
        return measure(&sequence_of(introducer), after);
    }
    let Some(second) = after.chars().next() else {
        return 0;
    };
    match second {
        '@'..='_' => {
            let sequence = sequence_of(as_c1(second));
            1 + measure(&sequence, after.get(1..).unwrap_or_default())
        }
        ' '..='~' => measure(&Sequence::Short, after),
        _ => 0,
    }
}

/// Returns the C1 character that `ESC` and `second` stand for: `ESC [` is U+009B, and so on.
fn as_c1(second: char) -> char {
    char::from_u32(second as u32 + 0x40).unwrap_or(second)
}

fn sequence_of(introducer: char) -> Sequence {
    match introducer {
        '\u{9b}' => Sequence::Control,
        '\u{9d}' => Sequence::String { ends_at_bell: true },
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => Sequence::String {
            ends_at_bell: false,
        },
        _ => Sequence::Single,
    }
}

fn measure(sequence: &Sequence, after: &str) -> usize {
    match sequence {
        Sequence::Single => 0,
        Sequence::Control => {
            let parameters = run_length(after, b'0'..=b'?');
            let body =
                parameters + run_length(after.get(parameters..).unwrap_or_default(), b' '..=b'/');
            body + matches_at(after, body, b'@'..=b'~')
        }
        Sequence::Short => {
            let intermediates = run_length(after, b' '..=b'/');
            intermediates + matches_at(after, intermediates, b'0'..=b'~')
        }
        Sequence::String { ends_at_bell } => string_length(after, *ends_at_bell),
    }
}

fn run_length(text: &str, range: std::ops::RangeInclusive<u8>) -> usize {
    text.bytes().take_while(|byte| range.contains(byte)).count()
}

fn matches_at(text: &str, at: usize, range: std::ops::RangeInclusive<u8>) -> usize {
    let found = text.as_bytes().get(at);
    usize::from(found.is_some_and(|byte| range.contains(byte)))
}

/// Returns the length of the control string that `after` starts with, including its terminator.
/// Returns 0 if it has no terminator. The caller then removes only the introducer, so that a stray
/// `ESC ]` does not remove the rest of the text.
fn string_length(after: &str, ends_at_bell: bool) -> usize {
    let ends = |letter| match letter {
        BEL => ends_at_bell,
        ESC | CANCEL | SUBSTITUTE | '\u{80}'..='\u{9f}' => true,
        _ => false,
    };
    let Some(end) = after.find(ends) else {
        return 0;
    };
    let rest = after.get(end..).unwrap_or_default();
    match rest.chars().next() {
        Some(BEL) => end + 1,
        Some(STRING_TERMINATOR) => end + STRING_TERMINATOR.len_utf8(),
        Some(ESC) if rest.starts_with("\u{1b}\\") => end + 2,
        _ => 0,
    }
}
