//! Mentions of resources in a text: `@server:uri`, as people type them to an agent.
//!
//! It finds what looks like a mention; whether there is such a server, and such a resource, it does
//! not know. Invariant: what is found lies between blanks, quotes or brackets, so that an address of
//! electronic mail is no mention.

use std::ops::Range;

/// How many mentions are taken of one text.
const MOST: usize = 64;

/// A resource that is mentioned in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mention<'a> {
    /// Where in the text it stands, the `@` included.
    pub range: Range<usize>,
    /// The server that is to be asked.
    pub server: &'a str,
    /// The address, as it was typed.
    pub uri: &'a str,
}

/// The resources that a text mentions, in their order; of very many the first 64.
///
/// Each word is looked at once, so that no text takes long.
pub fn mentions(text: &str) -> Vec<Mention<'_>> {
    let mut start = 0;
    let words = text.split(ends_mention).filter_map(|word| {
        let begins = start;
        // What ends a word is not part of the next one.
        start += word.len();
        start += text.get(start..).and_then(first_length).unwrap_or_default();
        let at = begins + find_sign(word)?;
        let word = without_punctuation(text.get(at + 1..begins + word.len())?);
        let (server, uri) = split(word)?;
        let range = at..at + 1 + word.len();
        Some(Mention { range, server, uri })
    });
    words.take(MOST).collect()
}

fn first_length(text: &str) -> Option<usize> {
    text.chars().next().map(char::len_utf8)
}

/// The first `@` in a word that nothing but a quote or a bracket stands before.
fn find_sign(word: &str) -> Option<usize> {
    let mut before = None;
    let mut letters = word.char_indices();
    let found = letters.find(|(_, letter)| {
        let may_begin = before.is_none_or(may_stand_before);
        before = Some(*letter);
        *letter == '@' && may_begin
    });
    found.map(|(at, _)| at)
}

/// Takes one reference apart: `server:uri`, with or without the `@`.
///
/// The server's name ends at the first colon that an address follows, one with a scheme.
pub fn split(reference: &str) -> Option<(&str, &str)> {
    let reference = reference.strip_prefix('@').unwrap_or(reference);
    let colons = reference.match_indices(':');
    let mut parts = colons.filter_map(|(at, _)| reference.split_at_checked(at));
    parts.find_map(|(server, rest)| {
        let uri = rest.strip_prefix(':')?;
        (!server.is_empty() && has_scheme(uri)).then_some((server, uri))
    })
}

/// Whether an address begins as addresses do: `scheme:` and something after it.
fn has_scheme(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return false;
    };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(is_plain)
        && !rest.is_empty()
}

fn may_stand_before(letter: char) -> bool {
    "'([{,;".contains(letter)
}

fn ends_mention(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "\"`<>".contains(letter)
}

/// A word without the punctuation of the sentence around it. A bracket belongs to the word if it was
/// opened in it.
fn without_punctuation(word: &str) -> &str {
    const BRACKETS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];
    // How many more of each are closed than opened.
    let mut foreign = BRACKETS.map(|(open, close)| {
        let closed = word.matches(close).count();
        closed.saturating_sub(word.matches(open).count())
    });
    word.trim_end_matches(|last: char| {
        let mut brackets = BRACKETS.iter().zip(&mut foreign);
        match brackets.find(|((_, close), _)| *close == last) {
            Some((_, 0)) => false,
            Some((_, left)) => {
                *left -= 1;
                true
            }
            None => ".,;:!?'".contains(last),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, &str, &str)> {
        let mentions = mentions(text).into_iter();
        mentions
            .map(|mention| (&text[mention.range], mention.server, mention.uri))
            .collect()
    }

    #[test]
    fn mentions_are_found_where_people_write_them() {
        assert_eq!(
            found("compare @files:file:///a/b.txt with (@db:table://users?id=1)."),
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
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!((found[0].1, found[0].2), ("s", uri), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
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
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_server_may_have_colons_in_its_name() {
        assert_eq!(split("@a:b:demo://x"), Some(("a", "b:demo://x")));
        assert_eq!(split("@1:2:demo://x"), Some(("1:2", "demo://x")));
        assert_eq!(split("s:demo://x"), Some(("s", "demo://x")));
    }

    #[test]
    fn very_many_are_counted() {
        let text = "@s:demo://x ".repeat(10_000);
        assert_eq!(mentions(&text).len(), MOST);
        let brackets = format!("@s:demo://x{}", ")".repeat(1_000_000));
        assert_eq!(found(&brackets), [("@s:demo://x", "s", "demo://x")]);
        let signs = "(@:".repeat(1_000_000);
        assert_eq!(found(&signs), []);
    }
}
