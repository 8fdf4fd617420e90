//! Replaces the symbols of this program where the locale has no UTF-8.
//!
//! Only text that this program composes is changed. Results of tools, resources and prompts, and
//! JSON, are always UTF-8.

use std::borrow::Cow;
use std::sync::OnceLock;

/// The characters that the locale can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Ascii,
    Utf8,
}

/// The charset of this process. It is set once, before the first output, because every place that
/// measures or prints text depends on it.
static CHARSET: OnceLock<Charset> = OnceLock::new();

/// Each symbol and what replaces it. All except the ellipsis are one column wide.
const SYMBOLS: [(char, &str); 16] = [
    ('✓', "+"),
    ('✗', "x"),
    ('○', "o"),
    ('·', "-"),
    ('•', "*"),
    ('→', ">"),
    ('│', "|"),
    ('─', "-"),
    ('━', "="),
    ('╸', ">"),
    ('…', "..."),
    ('×', "x"),
    ('“', "\""),
    ('”', "\""),
    ('–', "-"),
    ('—', "-"),
];

impl Charset {
    /// Reads the charset from `LC_ALL`, `LC_CTYPE` and `LANG`, of which the first nonempty one
    /// counts. Without any of them, the locale is `C`, which has no UTF-8.
    pub(crate) fn of_locale<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(variable);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") {
            Self::Utf8
        } else {
            Self::Ascii
        }
    }

    /// Makes this the charset of the process. Later calls have no effect.
    pub(crate) fn select(self) {
        // Ignore: the charset was selected before.
        let _ = CHARSET.set(self);
    }

    /// The charset of the process.
    pub(crate) fn current() -> Self {
        CHARSET.get().copied().unwrap_or(Self::Utf8)
    }

    /// Replaces the symbols that this charset does not have.
    pub(crate) fn encode(self, text: &str) -> Cow<'_, str> {
        let replacement = |letter: char| SYMBOLS.iter().find(|(symbol, _)| *symbol == letter);
        if self == Self::Utf8 || !text.contains(|letter| replacement(letter).is_some()) {
            return Cow::Borrowed(text);
        }
        let mut encoded = String::with_capacity(text.len());
        for letter in text.chars() {
            match replacement(letter) {
                Some((_, ascii)) => encoded.push_str(ascii),
                None => encoded.push(letter),
            }
        }
        Cow::Owned(encoded)
    }

    /// Marks shortened text.
    pub(crate) fn ellipsis(self) -> &'static str {
        match self {
            Self::Ascii => "...",
            Self::Utf8 => "…",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_nonempty_locale_variable_decides() {
        let of = |variables: &[(&str, &'static str)]| {
            Charset::of_locale(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| *value)
            })
        };
        assert_eq!(of(&[]), Charset::Ascii);
        assert_eq!(of(&[("LANG", "en_GB.UTF-8")]), Charset::Utf8);
        assert_eq!(of(&[("LANG", "C.utf8")]), Charset::Utf8);
        assert_eq!(of(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")]), Charset::Ascii);
        assert_eq!(of(&[("LC_CTYPE", "de_DE@euro")]), Charset::Ascii);
    }

    #[test]
    fn symbols_are_replaced_without_utf8() {
        assert_eq!(Charset::Ascii.encode("✓ a → b…"), "+ a > b...");
        assert_eq!(Charset::Utf8.encode("✓ a → b…"), "✓ a → b…");
    }
}
