//! Finds mentions of resources in a text: `@server:uri`, as users type them to an agent.
//!
//! Pure. The module does not check whether the server or the resource exists.
//!
//! Invariant: the `@` of a mention is at the start of a word, or follows a quote, an opening
//! bracket, a comma or a semicolon. So an email address is not a mention.

use std::ops::Range;

/// Maximum number of mentions that [`mentions`] returns. Later mentions are ignored.
const MAX_MENTIONS: usize = 64;

/// A mention of a resource in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mention<'a> {
    /// The byte range of the mention in the text, including the `@`.
    pub range: Range<usize>,
    /// The name of the server.
    pub server: &'a str,
    /// The URI as the user typed it.
    pub uri: &'a str,
}

/// Finds the first 64 mentions in a text. Takes time linear in the length of the text.
pub fn mentions(text: &str) -> Vec<Mention<'_>> {
    let mut start = 0;
    let words = text.split(ends_mention).filter_map(|word| {
        let word_start = start;
        // The next word starts after the separator that ends this word.
        start += word.len();
        start += text
            .get(start..)
            .and_then(first_char_len)
            .unwrap_or_default();
        let at = word_start + find_at_sign(word)?;
        let word = strip_punctuation(text.get(at + 1..word_start + word.len())?);
        let (server, uri) = split(word)?;
        let range = at..at + 1 + word.len();
        Some(Mention { range, server, uri })
    });
    words.take(MAX_MENTIONS).collect()
}

fn first_char_len(text: &str) -> Option<usize> {
    text.chars().next().map(char::len_utf8)
}

/// Finds the first `@` that is at the start of the word, or follows a character that
/// [`may_precede_mention`] allows.
fn find_at_sign(word: &str) -> Option<usize> {
    let mut before = None;
    let mut characters = word.char_indices();
    let found = characters.find(|(_, character)| {
        let is_allowed_here = before.is_none_or(may_precede_mention);
        before = Some(*character);
        *character == '@' && is_allowed_here
    });
    found.map(|(at, _)| at)
}

/// Splits a reference `server:uri`, with or without the `@`.
///
/// The name of the server can contain colons. The name ends at the first colon that is followed by
/// a URI with a scheme. Returns `None` if there is no such colon, or if the name is empty.
pub fn split(reference: &str) -> Option<(&str, &str)> {
    let reference = reference.strip_prefix('@').unwrap_or(reference);
    let colons = reference.match_indices(':');
    let mut parts = colons.filter_map(|(at, _)| reference.split_at_checked(at));
    parts.find_map(|(server, rest)| {
        let uri = rest.strip_prefix(':')?;
        (!server.is_empty() && has_scheme(uri)).then_some((server, uri))
    })
}

/// Whether a text starts with `scheme:` and has at least one character after the colon.
fn has_scheme(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return false;
    };
    let is_scheme_char = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(is_scheme_char)
        && !rest.is_empty()
}

fn may_precede_mention(character: char) -> bool {
    "'([{,;".contains(character)
}

fn ends_mention(character: char) -> bool {
    character.is_whitespace() || character.is_control() || "\"`<>".contains(character)
}

/// Strips punctuation from the end of a word. Keeps a closing bracket if the word contains the
/// matching opening bracket.
fn strip_punctuation(word: &str) -> &str {
    const BRACKETS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];
    // How many more closing than opening brackets the word contains, for each kind of bracket.
    let mut surplus = BRACKETS.map(|(open, close)| {
        let closed = word.matches(close).count();
        closed.saturating_sub(word.matches(open).count())
    });
    word.trim_end_matches(|last: char| {
        let mut brackets = BRACKETS.iter().zip(&mut surplus);
        match brackets.find(|((_, close), _)| *close == last) {
            Some((_, 0)) => false,
            Some((_, surplus)) => {
                *surplus -= 1;
                true
            }
            None => ".,;:!?'".contains(last),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Vec<(&str, &str, &str)> {
        let mentions = mentions(text).into_iter();
        mentions
            .map(|mention| (&text[mention.range], mention.server, mention.uri))
            .collect()
    }

    #[test]
    fn mentions_are_found_in_sentences() {
        assert_eq!(
            find("compare @files:file:///a/b.txt with (@db:table://users?id=1)."),
            [
                ("@files:file:///a/b.txt", "files", "file:///a/b.txt"),
                ("@db:table://users?id=1", "db", "table://users?id=1"),
            ]
        );
        let cases = [
            ("@s:demo://x", "demo://x"),
            ("see @s:demo://x, please", "demo://x"),
            ("see \"@s:demo://x\"!", "demo://x"),
            ("@s:demo://x/(1)", "demo://x/(1)"),
            ("(@s:demo://x/(1))", "demo://x/(1)"),
            ("@s:demo://x/{id}.", "demo://x/{id}"),
            ("@s:urn:isbn:1", "urn:isbn:1"),
            ("@s:demo://ü", "demo://ü"),
        ];
        for (text, uri) in cases {
            let found = find(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!((found[0].1, found[0].2), ("s", uri), "{text}");
        }
    }

    #[test]
    fn similar_texts_are_not_mentions() {
        for text in [
            "",
            "@",
            "@:",
            "@s",
            "@s:",
            "@s:x",
            "@s:demo:",
            "@:demo://x",
            "ann@example.com:file:///x",
            "@ s:demo://x",
            "@s: demo://x",
            "@ann: at 12:30",
        ] {
            assert_eq!(find(text), [], "{text}");
        }
    }

    #[test]
    fn server_names_may_contain_colons() {
        assert_eq!(split("@a:b:demo://x"), Some(("a", "b:demo://x")));
        assert_eq!(split("@1:2:demo://x"), Some(("1:2", "demo://x")));
        assert_eq!(split("s:demo://x"), Some(("s", "demo://x")));
    }

    #[test]
    fn mentions_are_limited() {
        let text = "@s:demo://x ".repeat(10_000);
        assert_eq!(mentions(&text).len(), MAX_MENTIONS);
        let brackets = format!("@s:demo://x{}", ")".repeat(1_000_000));
        assert_eq!(find(&brackets), [("@s:demo://x", "s", "demo://x")]);
        let at_signs = "(@:".repeat(1_000_000);
        assert_eq!(find(&at_signs), []);
    }
}
