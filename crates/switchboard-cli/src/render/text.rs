//! Sanitizes, truncates and wraps text, and quotes words for a shell.
//!
//! `server_text` shows longer texts of servers.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;
pub(crate) use switchboard::content::quote_for_shell;
use switchboard::content::{fit, for_terminal, sanitize};
use switchboard_config::MaskedEntry;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::charset::Charset;

/// The width of a text on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The first line that is not blank, sanitized and truncated.
pub(crate) fn first_line(text: &str) -> String {
    const MAX_BYTES: usize = 16 * 1024;
    let clean = sanitize(fit(text, MAX_BYTES));
    let line = clean.lines().map(str::trim).find(|line| !line.is_empty());
    one_line(line.unwrap_or_default())
}

/// The text on one line, sanitized and truncated.
pub(crate) fn one_line(text: &str) -> String {
    const MAX_COLUMNS: usize = 200;
    // Sanitizing a long text takes long, and its end is not shown.
    let clean = for_terminal(fit(text.trim_end(), MAX_COLUMNS * 16));
    truncate(&clean, MAX_COLUMNS).into_owned()
}

/// Truncates to a width, with an ellipsis.
pub(crate) fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let ellipsis = Charset::current().ellipsis();
    let mut used = width(ellipsis);
    let fits = |grapheme: &&str| {
        used += width(grapheme);
        used <= columns
    };
    let kept: String = graphemes(text).take_while(fits).collect();
    Cow::Owned(format!("{}{ellipsis}", kept.trim_end()))
}

/// Splits into grapheme clusters: a character with its combining marks, or characters joined by a
/// zero-width joiner.
pub(super) fn graphemes(text: &str) -> impl Iterator<Item = &str> {
    const JOINER: char = '\u{200d}';
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut before = rest.chars().next()?;
        let ends = |(at, letter): &(usize, char)| {
            let is_joined = before == JOINER || letter.width().unwrap_or_default() == 0;
            before = *letter;
            *at > 0 && !is_joined
        };
        let end = rest.char_indices().find(ends);
        let (grapheme, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        rest = after;
        Some(grapheme)
    })
}

/// Wraps lines to a width: at spaces, and around double-width characters, whose scripts have no
/// spaces. Other long words, such as URLs, are not broken.
pub(crate) fn wrap(text: &str, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else {
        return text.lines().map(str::to_owned).collect();
    };
    text.lines()
        .flat_map(|line| wrap_line(line, columns))
        .collect()
}

fn wrap_line(line: &str, columns: usize) -> Vec<String> {
    if width(line) <= columns {
        return vec![line.to_owned()];
    }
    let indent: String = line.chars().take_while(|letter| *letter == ' ').collect();
    let mut lines = Vec::new();
    let mut current = indent.clone();
    for (gap, part) in line.split_whitespace().flat_map(parts_of_word) {
        let has_text = current.len() > indent.len();
        if has_text && width(&current) + gap.len() + width(&part) > columns {
            lines.push(std::mem::replace(&mut current, indent.clone()));
        } else if has_text {
            current.push_str(gap);
        }
        current.push_str(&part);
    }
    lines.push(current);
    lines
}

/// Splits a word before and after double-width characters, where a line may be broken. Returns each
/// part with the separator in front of it: a space for the first part, an empty string for the
/// others.
fn parts_of_word(word: &str) -> Vec<(&'static str, String)> {
    let mut parts: Vec<(&str, String)> = Vec::new();
    let mut was_wide = false;
    for grapheme in graphemes(word) {
        let is_wide = width(grapheme) > 1;
        match parts.last_mut() {
            None => parts.push((" ", grapheme.to_owned())),
            Some((_, part)) if !is_wide && !was_wide => part.push_str(grapheme),
            // Do not break a line before closing punctuation.
            Some((_, part)) if "、。，．！？）」』".contains(grapheme) => {
                part.push_str(grapheme);
            }
            Some(_) => parts.push(("", grapheme.to_owned())),
        }
        was_wide = is_wide;
    }
    parts
}

/// Sanitizes, wraps and indents a text.
pub(crate) fn wrap_and_indent(text: &str, indent: usize, columns: Option<usize>) -> String {
    let available = columns.map(|columns| columns.saturating_sub(indent).max(20));
    let lines = wrap(sanitize(text).trim_end(), available);
    let margin = " ".repeat(indent);
    let lines = lines.iter().map(|line| format!("{margin}{line}"));
    let lines: Vec<_> = lines.map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// A path on one line, sanitized: directory names may contain control characters.
pub(crate) fn path_on_one_line(path: &Path) -> String {
    let line = path.to_string_lossy().replace(['\n', '\r'], " ");
    for_terminal(&line).into_owned()
}

/// The entry's command line, quoted for a shell, with variables unexpanded.
pub(crate) fn format_command_line(written: &MaskedEntry) -> String {
    let object = written.as_object();
    let args = object
        .get("args")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let words = object.get("command").into_iter().chain(args);
    let words = words.filter_map(Value::as_str).map(quote_command_word);
    words.collect::<Vec<_>>().join(" ")
}

/// Quotes a word of a config entry for a shell. References such as `${HOME}` stay references, because
/// a shell replaces them as this program does.
pub(crate) fn quote_command_word(word: &str) -> String {
    let mut quoted = String::new();
    let mut literal_start = 0;
    let mut at = 0;
    while let Some(start) = word.get(at..).and_then(|rest| rest.find("${")) {
        let start = at + start;
        let rest = word.get(start..).unwrap_or_default();
        let Some(length) = variable_length(rest) else {
            at = start + 2;
            continue;
        };
        if start > literal_start {
            quoted.push_str(&quote_for_shell(
                word.get(literal_start..start).unwrap_or_default(),
            ));
        }
        let variable = rest.get(..length).unwrap_or_default();
        quoted.extend(["\"", variable, "\""]);
        at = start + length;
        literal_start = at;
    }
    if literal_start < word.len() || word.is_empty() {
        quoted.push_str(&quote_for_shell(
            word.get(literal_start..).unwrap_or_default(),
        ));
    }
    quoted
}

/// The length of the reference `${NAME}` at the start of `text`. `None` for any other text, also for
/// a reference with a default value.
fn variable_length(text: &str) -> Option<usize> {
    let (name, _) = text.strip_prefix("${")?.split_once('}')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_with_digit = name.starts_with(|letter: char| letter.is_ascii_digit());
    let is_valid = !name.is_empty() && !starts_with_digit && name.bytes().all(is_name);
    is_valid.then(|| "${}".len() + name.len())
}

/// Formats a number with separators: `12,345`.
pub(crate) fn format_thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_counts_columns() {
        assert_eq!(truncate("short", 5), "short");
        assert_eq!(truncate("longer", 5), "long…");
        assert_eq!(truncate("a b c", 3), "a…");
        assert_eq!(truncate("日本語です", 5), "日本…");
        assert_eq!(truncate("x", 0), "…");
    }

    #[test]
    fn truncation_keeps_graphemes_whole() {
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
        assert_eq!(
            truncate(&format!("a{family}bcd"), 5),
            format!("a{family}b…")
        );
        assert_eq!(truncate(&format!("a{family}bcd"), 3), "a…");
        assert_eq!(truncate("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!(truncate("\u{2764}\u{fe0f}abc", 3), "\u{2764}\u{fe0f}…");
        for columns in 1..8 {
            let text = format!("{family}日本e\u{301}\u{2764}\u{fe0f}x");
            assert!(width(&truncate(&text, columns)) <= columns, "{columns}");
        }
    }

    #[test]
    fn wrapping_keeps_indentation_and_long_words() {
        assert_eq!(
            wrap("a bb ccc\n  dd ee", Some(5)),
            ["a bb", "ccc", "  dd", "  ee"]
        );
        assert_eq!(
            wrap("https://example.com/long x", Some(5)),
            ["https://example.com/long", "x"]
        );
        assert_eq!(wrap("a\n\nb", Some(5)), ["a", "", "b"]);
        assert_eq!(wrap("a b", None), ["a b"]);
        assert_eq!(wrap("a   b", Some(5)), ["a   b"]);
    }

    #[test]
    fn wide_characters_wrap_anywhere() {
        assert_eq!(
            wrap("日本語で書かれた説明。abc", Some(8)),
            ["日本語で", "書かれた", "説明。", "abc"]
        );
        assert_eq!(wrap("use 日本語 here", Some(8)), ["use 日本", "語 here"]);
        assert_eq!(wrap("  日本語", Some(6)), ["  日本", "  語"]);
    }

    #[test]
    fn references_in_command_words_stay_references() {
        assert_eq!(quote_command_word("--root"), "--root");
        assert_eq!(quote_command_word("${HOME}"), "\"${HOME}\"");
        assert_eq!(quote_command_word("--k=${A}/b c"), "--k=\"${A}\"'/b c'");
        assert_eq!(quote_command_word("${A:-$(x)}"), "'${A:-$(x)}'");
        assert_eq!(quote_command_word("$(x)${A}"), "'$(x)'\"${A}\"");
        assert_eq!(quote_command_word("${1}${"), "'${1}${'");
        assert_eq!(quote_command_word(""), "''");
    }

    #[test]
    fn first_line_is_sanitized_and_not_blank() {
        assert_eq!(
            first_line("\n  \u{1b}[31mred\tand more\nrest"),
            "red and more"
        );
    }
}
