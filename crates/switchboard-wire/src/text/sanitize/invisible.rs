//! Character tables: which characters are invisible, and where such a character is legitimate.
//!
//! The predicates look at one character and its neighbours; they never walk a text. A range covers
//! a whole Unicode block where the exact set would be long: a joiner beside a rare sign of an Indic
//! script does no harm.
//!
//! Invariant: a character that [`is_legitimate`] requires on the right is itself never removed.

pub(super) const BLACK_FLAG: char = '\u{1f3f4}';

/// The tag sequences that turn [`BLACK_FLAG`] into a flag: `gbeng`, `gbsct`, `gbwls`, each with the
/// cancel tag.
pub(super) const SUBDIVISION_FLAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

const NON_JOINER: char = '\u{200c}';
const JOINER: char = '\u{200d}';
const GRAPHEME_JOINER: char = '\u{34f}';
const TEXT_STYLE: char = '\u{fe0e}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';
const INITIAL_FILLER: char = '\u{115f}';
const VOWEL_FILLER: char = '\u{1160}';

pub(super) fn is_tag(letter: char) -> bool {
    matches!(letter, '\u{e0000}'..='\u{e007f}')
}

pub(super) fn is_direction_mark(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Invisible characters that are always removed.
pub(super) fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}'
        | '\u{17b4}' | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Invisible characters that some scripts and emoji need: [`is_legitimate`] decides on them.
pub(super) fn needs_context(letter: char) -> bool {
    matches!(
        letter,
        NON_JOINER | JOINER | GRAPHEME_JOINER | INITIAL_FILLER | VOWEL_FILLER
    ) || is_variation_selector(letter)
        || is_hieroglyph_joiner(letter)
}

/// Whether `letter`, a character that needs context, is legitimate between `previous`, the last
/// kept character, and `next`.
///
/// Each rule requires a visible neighbour, so that no long run of invisible characters is kept.
pub(super) fn is_legitimate(letter: char, previous: Option<char>, next: Option<char>) -> bool {
    let before = |test: fn(char) -> bool| previous.is_some_and(test);
    let follows = |test: fn(char) -> bool| next.is_some_and(test);
    match letter {
        JOINER => {
            before(joins_emoji) && follows(is_pictographic)
                || before(is_joining)
                || !before(is_any_invisible) && follows(is_joining)
        }
        NON_JOINER => before(is_joining) && follows(is_joining) || before(is_virama),
        GRAPHEME_JOINER => before(|left| !left.is_ascii() && !is_any_invisible(left)),
        INITIAL_FILLER => follows(|right| matches!(right, '\u{1161}'..='\u{11a7}')),
        VOWEL_FILLER => before(|left| matches!(left, '\u{1100}'..='\u{115e}')),
        TEXT_STYLE | EMOJI_STYLE if before(is_keycap_base) => next == Some(KEYCAP),
        TEXT_STYLE | EMOJI_STYLE => before(is_pictographic),
        '\u{fe00}'..='\u{fe02}' => before(has_variation_sequences),
        '\u{180b}'..='\u{180f}' => before(|left| matches!(left, '\u{1820}'..='\u{18aa}')),
        '\u{e0100}'..='\u{e01ef}' => before(is_ideograph),
        _ if is_hieroglyph_joiner(letter) => {
            before(|left| matches!(left, '\u{13000}'..='\u{1345f}'))
        }
        _ => false,
    }
}

fn is_any_invisible(letter: char) -> bool {
    is_invisible(letter) || is_direction_mark(letter) || needs_context(letter)
}

fn is_variation_selector(letter: char) -> bool {
    matches!(letter,
        '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{e0100}'..='\u{e01ef}')
}

fn is_hieroglyph_joiner(letter: char) -> bool {
    matches!(letter, '\u{13430}'..='\u{1343f}')
}

fn is_keycap_base(letter: char) -> bool {
    matches!(letter, '0'..='9' | '#' | '*')
}

fn joins_emoji(letter: char) -> bool {
    letter == EMOJI_STYLE || is_pictographic(letter) || matches!(letter, '\u{1f3fb}'..='\u{1f3ff}')
}

/// Emoji, and older symbols that may be displayed as emoji.
fn is_pictographic(letter: char) -> bool {
    matches!(letter,
        '\u{a9}' | '\u{ae}'
        | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}'
        | '\u{24c2}'
        | '\u{25a0}'..='\u{27bf}'
        | '\u{2934}' | '\u{2935}'
        | '\u{2b00}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1f1e5}'
        | '\u{1f200}'..='\u{1f3fa}'
        | '\u{1f400}'..='\u{1faff}')
}

/// Letters and marks of scripts whose shapes depend on joiners.
fn is_joining(letter: char) -> bool {
    !is_any_invisible(letter)
        && matches!(letter,
            '\u{600}'..='\u{77f}'
            | '\u{7c0}'..='\u{7ff}'
            | '\u{840}'..='\u{dff}'
            | '\u{f00}'..='\u{109f}'
            | '\u{1780}'..='\u{18af}'
            | '\u{1a20}'..='\u{1aaf}'
            | '\u{1b00}'..='\u{1c4f}'
            | '\u{1cd0}'..='\u{1cff}'
            | '\u{a800}'..='\u{a8ff}'
            | '\u{a980}'..='\u{a9ff}'
            | '\u{aa60}'..='\u{aa7f}'
            | '\u{fb50}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}'
            | '\u{10a00}'..='\u{10fff}'
            | '\u{11000}'..='\u{11fff}'
            | '\u{1e900}'..='\u{1e95f}')
}

/// The sign that removes the inherent vowel of a consonant. A non-joiner after it keeps the sign
/// visible, also at the end of a word.
fn is_virama(letter: char) -> bool {
    matches!(
        letter,
        '\u{94d}'
            | '\u{9cd}'
            | '\u{a4d}'
            | '\u{acd}'
            | '\u{b4d}'
            | '\u{bcd}'
            | '\u{c4d}'
            | '\u{ccd}'
            | '\u{d4d}'
            | '\u{dca}'
            | '\u{1039}'
            | '\u{17d2}'
    )
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter,
        '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Ideographs, signs and letters with standardised variants.
fn has_variation_sequences(letter: char) -> bool {
    is_ideograph(letter)
        || matches!(letter,
            '\u{1000}'..='\u{109f}'
            | '\u{2200}'..='\u{22ff}'
            | '\u{2a00}'..='\u{2aff}'
            | '\u{3001}' | '\u{3002}'
            | '\u{a840}'..='\u{a877}'
            | '\u{ff01}'..='\u{ff1f}')
}

pub(super) fn is_right_to_left(letter: char) -> bool {
    !is_direction_mark(letter)
        && matches!(letter,
            '\u{590}'..='\u{8ff}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}'
            | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}')
}

/// Printable ASCII characters that have no direction.
pub(super) fn is_neutral(letter: char) -> bool {
    matches!(letter, ' '..='~') && !letter.is_ascii_alphabetic()
}
