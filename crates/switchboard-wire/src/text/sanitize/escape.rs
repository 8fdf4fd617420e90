//! How far a terminal escape reaches.
//!
//! It measures sequences and removes nothing. Both spellings are known: `ESC` with a second
//! character, and the single C1 characters U+0080 to U+009F.
//!
//! Invariant: measuring is linear over a whole text, because no sequence is followed past the
//! introducer of the next.

const ESC: char = '\u{1b}';
const BEL: char = '\u{7}';
const CANCEL: char = '\u{18}';
const SUBSTITUTE: char = '\u{1a}';
const STRING_TERMINATOR: char = '\u{9c}';

/// What an introducer begins.
enum Sequence {
    /// Parameters, then one final character: colours, cursor movements.
    Control,
    /// Any text up to a terminator: titles, links, the clipboard.
    Text { ends_at_bell: bool },
    /// One character after a run of intermediates: character sets and the like.
    Short,
    /// Nothing more.
    Alone,
}

/// How many bytes of `after` belong to the escape that `introducer` begins.
pub(super) fn length_after(introducer: char, after: &str) -> usize {
    if introducer != ESC {
        return measure(&c1(introducer), after);
    }
    let Some(second) = after.chars().next() else {
        return 0;
    };
    match second {
        '@'..='_' => {
            let sequence = c1(as_c1(second));
            1 + measure(&sequence, after.get(1..).unwrap_or_default())
        }
        ' '..='~' => measure(&Sequence::Short, after),
        _ => 0,
    }
}

/// `ESC [` is another way to write U+009B, and so on.
fn as_c1(second: char) -> char {
    char::from_u32(second as u32 + 0x40).unwrap_or(second)
}

fn c1(introducer: char) -> Sequence {
    match introducer {
        '\u{9b}' => Sequence::Control,
        '\u{9d}' => Sequence::Text { ends_at_bell: true },
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => Sequence::Text {
            ends_at_bell: false,
        },
        _ => Sequence::Alone,
    }
}

fn measure(sequence: &Sequence, after: &str) -> usize {
    match sequence {
        Sequence::Alone => 0,
        Sequence::Control => {
            let parameters = run(after, b'0'..=b'?');
            let body = parameters + run(after.get(parameters..).unwrap_or_default(), b' '..=b'/');
            body + one(after, body, b'@'..=b'~')
        }
        Sequence::Short => {
            let intermediates = run(after, b' '..=b'/');
            intermediates + one(after, intermediates, b'0'..=b'~')
        }
        Sequence::Text { ends_at_bell } => text_length(after, *ends_at_bell),
    }
}

fn run(text: &str, range: std::ops::RangeInclusive<u8>) -> usize {
    text.bytes().take_while(|byte| range.contains(byte)).count()
}

fn one(text: &str, at: usize, range: std::ops::RangeInclusive<u8>) -> usize {
    let found = text.as_bytes().get(at);
    usize::from(found.is_some_and(|byte| range.contains(byte)))
}

/// The length up to and with the terminator. Without one only the introducer goes, so that a stray
/// `ESC ]` cannot swallow the rest of an answer.
fn text_length(after: &str, ends_at_bell: bool) -> usize {
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
