//! Cutting text to a number of bytes.
//!
//! It does not decide how much is allowed or where the rest goes.
//!
//! Invariant: what is left is a prefix of what was there, no longer than allowed, and never ends
//! inside a character.

/// How far back from the edge a cut may move to fall between two lines.
const LINE_REACH: usize = 256;

/// How many characters a cut may move back to leave an emoji or an accented letter whole.
const CLUSTER_REACH: usize = 12;

/// The longest prefix of at most `budget` bytes that ends well: after a line if one ends near, else
/// between two whole characters as people see them.
pub fn fit(text: &str, budget: usize) -> &str {
    if text.len() <= budget {
        return text;
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=budget).rev().find(is_boundary).unwrap_or_default();
    let shown = text.get(..end).unwrap_or_default();
    let line_end = shown.rfind('\n').map(|at| at + 1);
    match line_end.filter(|at| end - at <= LINE_REACH) {
        Some(at) => shown.get(..at).unwrap_or(shown),
        None => leave_clusters_whole(text, shown),
    }
}

fn leave_clusters_whole<'a>(text: &'a str, shown: &'a str) -> &'a str {
    let mut kept = shown;
    for _ in 0..CLUSTER_REACH {
        let next = text.get(kept.len()..).and_then(|rest| rest.chars().next());
        let mut letters = kept.chars();
        let Some(last) = letters.next_back() else {
            break;
        };
        if last != JOINER && !next.is_some_and(continues_cluster) {
            return kept;
        }
        kept = letters.as_str();
    }
    // A cluster longer than that is no letter that anybody would miss.
    shown
}

const JOINER: char = '\u{200d}';

/// Marks that belong to the character before them.
fn continues_cluster(letter: char) -> bool {
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
    fn a_text_that_fits_is_left_alone() {
        for (text, budget) in [("", 0), ("abc", 3), ("abc", 4), ("é", 2)] {
            assert_eq!(fit(text, budget), text);
        }
    }

    #[test]
    fn a_cut_falls_between_whole_characters() {
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
    fn a_cut_prefers_the_end_of_a_line_that_is_near() {
        assert_eq!(fit("one\ntwo\nthree", 9), "one\ntwo\n");
        assert_eq!(fit("one\ntwo\nthree", 8), "one\ntwo\n");
        let far = format!("one\n{}", "x".repeat(1_000));
        assert_eq!(fit(&far, 900).len(), 900);
    }

    #[test]
    fn an_endless_pile_of_marks_is_cut_anyway() {
        let pile = format!("a{}", "\u{301}".repeat(100));
        assert_eq!(fit(&pile, 101).len(), 101);
    }

    proptest! {
        #[test]
        fn a_cut_is_a_prefix_within_the_budget(text in any::<String>(), budget in 0..200_usize) {
            let shown = fit(&text, budget);
            prop_assert!(text.starts_with(shown));
            prop_assert!(shown.len() <= budget);
            if text.len() > budget {
                prop_assert!(shown.len() + LINE_REACH + 4 * CLUSTER_REACH >= budget);
            } else {
                prop_assert_eq!(shown, &text);
            }
        }
    }
}
