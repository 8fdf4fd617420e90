//! Truncates text to a number of bytes.
//!
//! How much is allowed, and what happens to the rest, is decided by the caller.
//!
//! Invariant: the result of [`fit`] is a prefix of the text, within the budget, and never ends
//! inside a character.

/// How many bytes before the budget a line break may be for the cut to move there.
const MAX_LINE_BACKTRACK: usize = 256;

/// How many characters the cut may move back to keep an emoji or an accented letter whole.
const MAX_GRAPHEME_BACKTRACK: usize = 12;

/// Returns the longest suitable prefix of at most `max_bytes` bytes: up to a line break if one is
/// near the end, otherwise up to a boundary between graphemes.
pub fn fit(text: &str, max_bytes: usize) -> &str {
    let prefix = char_prefix(text, max_bytes);
    if prefix.len() == text.len() {
        return text;
    }
    let line_end = prefix.rfind('\n').map(|at| at + 1);
    match line_end.filter(|at| prefix.len() - at <= MAX_LINE_BACKTRACK) {
        Some(at) => prefix.get(..at).unwrap_or(prefix),
        None => back_to_grapheme_boundary(text, prefix),
    }
}

/// Shortens an owned text to `max_bytes` bytes and appends ` [truncated]` if it was longer.
#[doc(hidden)]
pub fn truncate_marked(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(char_prefix(&text, max_bytes).len());
        text.push_str(" [truncated]");
        // Otherwise the text would keep the memory of its full length.
        text.shrink_to_fit();
    }
    text
}

/// Returns the longest prefix of at most `max_bytes` bytes that ends between two characters.
fn char_prefix(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=max_bytes).rev().find(is_boundary).unwrap_or_default();
    text.get(..end).unwrap_or_default()
}

fn back_to_grapheme_boundary<'a>(text: &'a str, prefix: &'a str) -> &'a str {
    let mut shorter = prefix;
    for _ in 0..MAX_GRAPHEME_BACKTRACK {
        let next = text
            .get(shorter.len()..)
            .and_then(|rest| rest.chars().next());
        let mut letters = shorter.chars();
        let Some(last) = letters.next_back() else {
            break;
        };
        if last != JOINER && !next.is_some_and(extends_grapheme) {
            return shorter;
        }
        shorter = letters.as_str();
    }
    // No letter or emoji is that long. Cut at the byte limit.
    prefix
}

const JOINER: char = '\u{200d}';

/// Whether a character combines with the one before it.
fn extends_grapheme(letter: char) -> bool {
    matches!(letter,
        JOINER
        | '\u{200c}'
        | '\u{300}'..='\u{36f}'
        | '\u{591}'..='\u{5c7}'
        | '\u{64b}'..='\u{65f}'
        | '\u{93a}'..='\u{94f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}'
        | '\u{e0020}'..='\u{e007f}'
        | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fitting_text_is_unchanged() {
        for (text, budget) in [("", 0), ("abc", 3), ("abc", 4), ("é", 2)] {
            assert_eq!(fit(text, budget), text);
        }
    }

    #[test]
    fn cut_falls_between_graphemes() {
        let cases = [
            ("abcdef", 3, "abc"),
            ("aé", 2, "a"),
            ("a🦀b", 4, "a"),
            ("a🦀b", 5, "a🦀"),
            ("🦀", 3, ""),
            ("abc", 0, ""),
            ("xe\u{301}y", 2, "x"),
            ("xe\u{301}y", 4, "xe\u{301}"),
            ("x👩\u{200d}👧y", 5, "x"),
            ("x👩\u{200d}👧y", 8, "x"),
            ("x👩\u{200d}👧y", 12, "x👩\u{200d}👧"),
            ("x👍🏽", 5, "x"),
            ("x❤\u{fe0f}", 4, "x"),
        ];
        for (text, budget, expected) in cases {
            assert_eq!(fit(text, budget), expected, "{text} to {budget}");
        }
    }

    #[test]
    fn cut_prefers_near_line_break() {
        assert_eq!(fit("one\ntwo\nthree", 9), "one\ntwo\n");
        assert_eq!(fit("one\ntwo\nthree", 8), "one\ntwo\n");
        let far = format!("one\n{}", "x".repeat(1_000));
        assert_eq!(fit(&far, 900).len(), 900);
    }

    #[test]
    fn marked_text_says_that_it_is_truncated() {
        assert_eq!(truncate_marked("abc".to_owned(), 3), "abc");
        assert_eq!(truncate_marked("aéb".to_owned(), 2), "a [truncated]");
    }

    #[test]
    fn long_run_of_marks_is_cut() {
        let marks = format!("a{}", "\u{301}".repeat(100));
        assert_eq!(fit(&marks, 101).len(), 101);
    }

    proptest! {
        #[test]
        fn result_is_prefix_within_budget(text in any::<String>(), budget in 0..200_usize) {
            let prefix = fit(&text, budget);
            prop_assert!(text.starts_with(prefix));
            prop_assert!(prefix.len() <= budget);
            if text.len() > budget {
                prop_assert!(prefix.len() + MAX_LINE_BACKTRACK + 4 * MAX_GRAPHEME_BACKTRACK >= budget);
            } else {
                prop_assert_eq!(prefix, &text);
            }
        }
    }
}
