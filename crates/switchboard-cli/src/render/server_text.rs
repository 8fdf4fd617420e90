//! Shows text of servers so that it cannot pass for output of this program.
//!
//! Every command shows longer server text through this module: errors, the end of stderr,
//! instructions, descriptions. Invariant: of a server's text, at most the part on the first row of a
//! message stands without [`PREFIX`], and later rows of that part are indented deeper than any label
//! of this program.

use switchboard::content::{fit, sanitize};

use super::text::{format_thousands, graphemes, truncate, width, wrap};

/// Stands in front of each row of server text.
const PREFIX: &str = "│ ";

/// Maximum bytes and lines of one field that are shown. `--json` prints fields completely.
const MAX_BYTES: usize = 16 * 1024;
const MAX_LINES: usize = 200;

/// The indent of rows that continue the first line of a message.
const HANGING_INDENT: usize = 2;

/// Minimum columns of text per row, also on a narrower terminal.
const MIN_COLUMNS: usize = 20;

/// Quotes text of a server: every row starts with [`PREFIX`] and fits into `columns`. A terminal
/// would wrap a longer row and start the rest without the prefix. Without `columns`, lines are not
/// wrapped.
pub(crate) fn quote(text: &str, columns: Option<usize>) -> String {
    let available = columns.map(|columns| available(columns, width(PREFIX)));
    let (text, note) = bound(text);
    let rows = rows(&text.replace('\t', " "), available);
    let rows = rows.into_iter().map(|row| format!("{PREFIX}{row}"));
    let rows: Vec<_> = rows
        .map(|row| row.trim_end().to_owned())
        .chain(note)
        .collect();
    rows.join("\n")
}

/// Quotes text as [`quote`] does, and indents each row.
pub(crate) fn quote_indented(text: &str, indent: usize, columns: Option<usize>) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let available = columns.map(|columns| available(columns, indent));
    indented(&quote(text, available), indent)
}

/// Renders a message of this program that may contain text of a server. The first line is the
/// message. Further lines are text of the server, and are quoted.
pub(crate) fn quote_message(message: &str, indent: usize, columns: Option<usize>) -> String {
    let message = sanitize(message);
    let (first, rest) = message
        .trim()
        .split_once('\n')
        .unwrap_or((message.trim(), ""));
    let available = columns.map(|columns| available(columns, indent + HANGING_INDENT));
    let (first, note) = bound(first);
    let first = rows(&first.replace('\t', " "), available)
        .join("\n")
        .replace(
            '\n',
            &format!("\n{:width$}", "", width = indent + HANGING_INDENT),
        );
    let mut text = format!("{:indent$}{}", "", first.trim_end());
    for part in note
        .into_iter()
        .chain((!rest.trim().is_empty()).then(|| quote(rest, available)))
    {
        text.push('\n');
        text.push_str(&indented(&part, indent + HANGING_INDENT));
    }
    text
}

/// A field of one line: sanitized, and with a note of its length if it is longer than `max_columns`.
pub(crate) fn short_field(text: &str, max_columns: usize) -> String {
    // Sanitizing a long text takes long, and its end is not shown.
    let start = fit(text, max_columns.saturating_mul(8));
    let line = switchboard::content::for_terminal(start.trim());
    let shown = truncate(&line, max_columns);
    if start.len() == text.len() && shown == line {
        return line.into_owned();
    }
    let dots = if shown == line { "…" } else { "" };
    format!("{shown}{dots} ({} bytes)", format_thousands(text.len()))
}

fn available(columns: usize, used: usize) -> usize {
    columns.saturating_sub(used).max(MIN_COLUMNS)
}

/// Cuts a text to [`MAX_BYTES`] and [`MAX_LINES`]. Returns the rest, sanitized, and a note if
/// something was cut.
fn bound(text: &str) -> (String, Option<String>) {
    let start = fit(text, MAX_BYTES);
    let clean = sanitize(start);
    let lines: Vec<&str> = clean.trim_end().lines().take(MAX_LINES + 1).collect();
    let shown = lines.get(..MAX_LINES).unwrap_or(&lines).join("\n");
    let is_cut = start.len() < text.len() || lines.len() > MAX_LINES;
    let note = is_cut.then(|| {
        let bytes = format_thousands(text.len());
        format!("(shortened; {bytes} bytes in total)")
    });
    (shown, note)
}

fn rows(text: &str, columns: Option<usize>) -> Vec<String> {
    let lines = wrap(text, columns);
    match columns {
        None => lines,
        Some(columns) => lines
            .iter()
            .flat_map(|line| hard_wrap(line, columns))
            .collect(),
    }
}

fn indented(text: &str, indent: usize) -> String {
    let rows = text.lines().map(|row| format!("{:indent$}{row}", ""));
    rows.collect::<Vec<_>>().join("\n")
}

/// Splits a line into pieces of at most `columns`, even inside words.
fn hard_wrap(line: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for grapheme in graphemes(line) {
        let more = width(grapheme);
        if used + more > columns {
            pieces.push(String::new());
            used = 0;
        }
        used += more;
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(grapheme);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_quoted_line_has_the_prefix() {
        assert_eq!(quote("a b\n\nc\n", Some(80)), "│ a b\n│\n│ c");
        assert_eq!(quote("a b\n\nc\n", None), "│ a b\n│\n│ c");
        let long = format!("{}Type_your_password:", "x".repeat(38));
        assert_eq!(
            quote(&long, Some(40)),
            format!("│ {}\n│ Type_your_password:", "x".repeat(38))
        );
        for text in [
            "\u{2800}".repeat(90),
            "日".repeat(50),
            "a\tb\u{2028}c".repeat(9),
        ] {
            for line in quote(&text, Some(30)).lines() {
                assert!(line.starts_with('│') && width(line) <= 30, "{line:?}");
            }
        }
    }

    #[test]
    fn later_rows_of_a_message_cannot_imitate_a_hint() {
        let message = "it failed: locked\nhint: run `evil`\r\n\u{85}error: x";
        assert_eq!(
            quote_message(message, 4, None),
            "    it failed: locked\n      │ hint: run `evil`\n      │\n      │ error: x"
        );
        let spaces = format!("it failed: {}hint:\u{a0}run\u{a0}evil", "x".repeat(69));
        let shown = quote_message(&spaces, 0, Some(80));
        let rows: Vec<_> = shown.lines().skip(1).collect();
        assert!(!rows.is_empty());
        assert!(rows.iter().all(|row| row.starts_with("  ")), "{shown}");
    }

    #[test]
    fn long_fields_are_cut_with_a_note() {
        let quoted = quote(&"word ".repeat(100_000), Some(80));
        assert!(quoted.len() < 2 * MAX_BYTES, "{}", quoted.len());
        assert!(quoted.ends_with("\n(shortened; 500,000 bytes in total)"));
        assert_eq!(
            quote(&"x\n".repeat(9_999), None).lines().count(),
            MAX_LINES + 1
        );
        assert_eq!(short_field("a\nb", 9), "a b");
        assert_eq!(
            short_field(&"x".repeat(3_000_000), 9),
            "xxxxxxxx… (3,000,000 bytes)"
        );
    }

    proptest! {
        #[test]
        fn no_row_after_the_first_starts_at_the_margin(text in "\\PC*(\n\\PC*){0,4}", columns in 20_usize..90) {
            let shown = quote_message(&text, 4, Some(columns));
            for row in shown.lines().skip(1) {
                prop_assert!(row.starts_with("      "), "{row:?}");
            }
            let shown = quote_message(&text, 4, None);
            for row in shown.lines().skip(1) {
                prop_assert!(row.starts_with("      │"), "{row:?}");
            }
        }
    }
}
