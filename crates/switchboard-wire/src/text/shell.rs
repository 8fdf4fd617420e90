//! Quotes words for a POSIX shell.
//!
//! Invariant: a shell reads the quoted form as exactly one word with exactly the given bytes, and
//! the quoted form contains no character that a terminal would act on or hide.

use std::fmt::Write as _;

use super::for_terminal;

/// Quotes a word for a POSIX shell if it needs quoting.
///
/// Use this for every word of a command that is printed to be pasted. A word with characters that
/// a terminal does not show is written as `"$(printf %b '…')"` with octal escapes. The word must
/// not contain NUL, because no argument of a process can.
pub fn quote_for_shell(word: &str) -> String {
    if is_plain(word) {
        word.to_owned()
    } else if for_terminal(word) == word {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        quote_hidden(word)
    }
}

/// Whether no shell interprets a character of the word.
fn is_plain(word: &str) -> bool {
    // zsh replaces `=name` at the start of a word by the path of a program.
    !word.is_empty() && !word.starts_with('=') && word.bytes().all(is_plain_byte)
}

fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte)
}

fn quote_hidden(word: &str) -> String {
    let body = word.trim_end_matches('\n');
    let mut quoted = String::from("\"$(printf %b '");
    for byte in body.bytes() {
        if is_plain_byte(byte) || byte == b' ' {
            quoted.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(quoted, "\\0{byte:03o}");
        }
    }
    quoted.push_str("')");
    // A command substitution removes newlines at its end, so they follow it.
    quoted.push_str(word.get(body.len()..).unwrap_or_default());
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_quoted_only_if_needed() {
        for plain in ["-y", "a.b/c:d=e@f%g+h,i", "@server:file:///a", "key=value"] {
            assert_eq!(quote_for_shell(plain), plain);
        }
        assert_eq!(quote_for_shell("two words"), "'two words'");
        assert_eq!(quote_for_shell("it's"), r"'it'\''s'");
        assert_eq!(quote_for_shell(""), "''");
        assert_eq!(quote_for_shell("$(touch F)"), "'$(touch F)'");
        assert_eq!(quote_for_shell("${TOKEN}"), "'${TOKEN}'");
        assert_eq!(quote_for_shell("{a,b}"), "'{a,b}'");
        assert_eq!(quote_for_shell("=ls"), "'=ls'");
    }

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(
            quote_for_shell("a\u{1b}[2Jb'\n"),
            "\"$(printf %b 'a\\0033\\01332Jb\\0047')\n\""
        );
    }
}
