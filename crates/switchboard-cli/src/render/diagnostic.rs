//! Fits a config diagnostic to the terminal's width.
//!
//! Wraps message and hint, and crops a long source line around the marked span. Invariant: the
//! `^^^` marker stays below the part of the source line that it marks.

use switchboard_config::{Diagnostic, Snippet};

use super::text::{truncate, width, wrap};

/// The separator between line number and source line.
const MARGIN: usize = " | ".len();

/// Renders a diagnostic. `columns`: the terminal's width; `None` disables wrapping.
pub(crate) fn render(diagnostic: &Diagnostic, columns: Option<usize>) -> String {
    let Some(columns) = columns else {
        return diagnostic.to_string();
    };
    let mut diagnostic = diagnostic.clone();
    let line = diagnostic.origin.as_ref().map_or(0, |origin| origin.line);
    let gutter = line.max(1).to_string().len();
    let server = diagnostic.server.as_ref();
    let server = server.map(|server| format!("server `{server}`: "));
    let label = format!("{}: {}", diagnostic.severity, server.unwrap_or_default());
    diagnostic.message = wrap_with_indent(&label, 2, &diagnostic.message, columns);
    let label = " ".repeat(gutter + " = hint: ".len());
    diagnostic.hint = diagnostic
        .hint
        .map(|hint| wrap_with_indent(&label, label.len(), &hint, columns));
    diagnostic.snippet = diagnostic
        .snippet
        .map(|snippet| crop_snippet(snippet, columns.saturating_sub(gutter + MARGIN)));
    diagnostic.to_string()
}

/// Wraps a text that follows `label` on its first line and is indented on the others.
fn wrap_with_indent(label: &str, indent: usize, text: &str, columns: usize) -> String {
    // Stands for the label while the text is wrapped: as wide as the part of the label beyond the
    // indent, and without spaces.
    let placeholder = "x".repeat(width(label).saturating_sub(indent));
    let available = columns.saturating_sub(indent).max(20);
    let lines =
        wrap(&format!("{placeholder}{text}"), Some(available)).join(&format!("\n{:indent$}", ""));
    match lines.strip_prefix(&placeholder) {
        Some(lines) => lines.to_owned(),
        None => text.to_owned(),
    }
}

/// Crops the source line to the part around the marked span.
fn crop_snippet(snippet: Snippet, columns: usize) -> Snippet {
    if width(&snippet.line_text) <= columns {
        return snippet;
    }
    let letters: Vec<char> = snippet.line_text.chars().collect();
    let mark = (snippet.start_column.saturating_sub(1) as usize).min(letters.len());
    let columns_of = |from: usize, to: usize| {
        let part: String = letters.iter().take(to).skip(from).collect();
        width(&part)
    };
    let marked = columns_of(mark, mark + snippet.len as usize).min(columns / 2);
    // Crop as little as possible before the span, so that its context stays visible.
    let fits = |from: &usize| 1 + columns_of(*from, mark) + marked < columns;
    let first = if columns_of(0, mark) + marked < columns {
        0
    } else {
        (1..mark).find(fits).unwrap_or(mark)
    };
    let rest: String = letters.iter().skip(first).collect();
    let dots = if first > 0 { "…" } else { "" };
    let line_text = truncate(&format!("{dots}{rest}"), columns).into_owned();
    let start = mark - first + dots.chars().count();
    let shown = line_text.chars().count().saturating_sub(start);
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Snippet {
        start_column: number(start + 1),
        len: snippet.len.min(number(shown)).max(1),
        line_text,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use insta::assert_snapshot;
    use switchboard_config::{ConfigSource, ConfigSources, load};

    use super::*;

    fn rendered(text: &str, columns: usize) -> String {
        let sources = ConfigSources {
            command_line: vec![ConfigSource::Inline(text.to_owned())],
            ..ConfigSources::default()
        };
        let diagnostics = load(&sources, &HashMap::new()).diagnostics;
        let lines = render(&diagnostics[0], Some(columns));
        assert!(lines.lines().all(|line| width(line) <= columns), "{lines}");
        lines
    }

    const ENTRY: &str =
        r#"{ "mcpServers": { "日本語": { "command": "${NOT_EXPORTED}", "args": [] } } }"#;

    #[test]
    fn message_wraps_and_marker_stays_aligned() {
        assert_snapshot!(rendered(ENTRY, 40), @r#"
        error: server `日本語`: variable
          NOT_EXPORTED is not set
         --> <inline>:1:39
          |
        1 | …": { "command": "${NOT_EXPORTED}",…
          |                  ^^^^^^^^^^^^^^^^^
          = hint: export NOT_EXPORTED=… or write
                  ${NOT_EXPORTED:-default}
        "#);
    }

    #[test]
    fn marker_is_aligned_at_every_width() {
        for columns in 40..100 {
            let lines = rendered(ENTRY, columns);
            let marks = lines.lines().find(|line| line.ends_with('^'));
            let shown = lines.lines().find(|line| line.starts_with("1 | "));
            let before = width(marks.unwrap().trim_end_matches('^'));
            let at = |text: &str| {
                shown
                    .unwrap()
                    .find(text)
                    .map(|at| width(&shown.unwrap()[..at]))
            };
            assert_eq!(at("\"${"), Some(before), "{lines}");
        }
    }
}
