//! Spinner and progress bar on stderr.
//!
//! Nothing is drawn with `--quiet`, or if stderr is no terminal that can redraw lines. Invariant: a
//! line is erased when its [`ProgressLine`] is dropped.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use switchboard::content::for_terminal;
use switchboard::mcp::Progress;

use super::style::Style;
use super::text::truncate;
use super::{Console, Verbosity, print_stderr};
use crate::charset::Charset;

const TICK: Duration = Duration::from_millis(100);

/// Columns of the progress bar on a wide terminal; [`NARROW`] is for a narrow one.
const WIDE: usize = 24;
const NARROW: usize = 8;

/// Columns that neither bar nor text can use: spinner, brackets, percentage, and the `^C` that the
/// terminal echoes.
const OVERHEAD_COLUMNS: usize = 12;

/// The bar becomes [`NARROW`] if fewer columns than this remain for text.
const MIN_TEXT_COLUMNS: usize = 16;

/// The value at which the bar is full. The server's progress is scaled to `0..=BAR_STEPS`.
const BAR_STEPS: f64 = 1000.0;

/// A line on stderr: a spinner with text, and a progress bar as soon as the server reports a total.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
    bar_columns: usize,
    text_columns: usize,
    style: Style,
}

impl ProgressLine {
    pub(crate) fn start(console: &Console, text: &str) -> Self {
        let is_shown = console.shows_progress && console.verbosity != Verbosity::Quiet;
        let bar = is_shown.then(|| {
            let spinner = spinner(console.stderr_style);
            let bar = ProgressBar::new_spinner().with_style(style(&format!("{spinner} {{msg}}")));
            console.terminal.register(&bar);
            bar.enable_steady_tick(TICK);
            bar
        });
        let (bar_columns, text_columns) = split_columns(console.stderr_columns.unwrap_or(80));
        let style = console.stderr_style;
        let line = Self {
            bar,
            bar_columns,
            text_columns,
            style,
        };
        line.set_text(text);
        line
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    pub(crate) fn set_text(&self, text: &str) {
        if let Some(bar) = &self.bar {
            let text = for_terminal(text);
            let text = Charset::current().encode(&text);
            bar.set_message(truncate(&text, self.text_columns).into_owned());
        }
    }

    /// Shows the message of a progress notification, and a bar if it has a total.
    pub(crate) fn set_progress(&self, note: &Progress) {
        let Some(bar) = &self.bar else { return };
        if let Some(message) = &note.message {
            self.set_text(message);
        }
        if let Some(position) = bar_position(note) {
            let (spinner, width) = (spinner(self.style), self.bar_columns);
            let colour = match self.style {
                Style::Plain => "",
                Style::Coloured => ".cyan",
            };
            bar.set_style(style(&format!(
                "{spinner} [{{bar:{width}{colour}}}] {{percent:>3}}% {{msg}}"
            )));
            bar.set_length(1000);
            bar.set_position(position);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn spinner(style: Style) -> &'static str {
    match style {
        Style::Plain => "{spinner}",
        Style::Coloured => "{spinner:.cyan}",
    }
}

/// Splits the terminal's width into columns for the bar and for text.
fn split_columns(columns: usize) -> (usize, usize) {
    let width = if columns >= WIDE + OVERHEAD_COLUMNS + MIN_TEXT_COLUMNS {
        WIDE
    } else {
        NARROW.min(columns.saturating_sub(OVERHEAD_COLUMNS))
    };
    (width, columns.saturating_sub(width + OVERHEAD_COLUMNS))
}

fn style(template: &str) -> ProgressStyle {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    match Charset::current() {
        Charset::Utf8 => style.progress_chars("━╸─"),
        Charset::Ascii => style.progress_chars("=>-").tick_chars("|/-\\ "),
    }
}

fn bar_position(note: &Progress) -> Option<u64> {
    let total = note.total.filter(|total| *total > 0.0)?;
    let position = (note.progress / total * BAR_STEPS).clamp(0.0, BAR_STEPS);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=1000"
    )]
    let position = position as u64;
    Some(position)
}

/// With `-v`, prints a progress notification as a line of text if no progress line can be drawn.
pub(crate) fn log_progress(console: &Console, note: &Progress) {
    if console.shows_progress || console.verbosity != Verbosity::Verbose {
        return;
    }
    let total = note.total.map(|total| format!(" of {total}"));
    let message = note
        .message
        .as_deref()
        .map(for_terminal)
        .map(|text| format!(": {text}"));
    print_stderr(&format!(
        "progress {}{}{}",
        note.progress,
        total.unwrap_or_default(),
        message.map_or(Cow::Borrowed(""), Cow::Owned)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_fits_terminal() {
        for columns in 0..300 {
            let (bar, text) = split_columns(columns);
            assert!(
                bar + text + OVERHEAD_COLUMNS <= columns.max(OVERHEAD_COLUMNS),
                "{columns}"
            );
        }
        assert_eq!(split_columns(80), (24, 44));
        assert_eq!(split_columns(40), (8, 20));
    }

    #[test]
    fn bar_position_needs_a_total() {
        let note = |progress: f64, total: Option<f64>| {
            let mut note = Progress::new(progress);
            note.total = total;
            bar_position(&note)
        };
        assert_eq!(note(1.0, Some(4.0)), Some(250));
        assert_eq!(note(9.0, Some(4.0)), Some(1000));
        assert_eq!(note(-9.0, Some(4.0)), Some(0));
        assert_eq!(note(f64::NAN, Some(4.0)), Some(0));
        assert_eq!(note(1.0, None), None);
        assert_eq!(note(1.0, Some(0.0)), None);
        assert_eq!(note(1.0, Some(f64::NAN)), None);
    }
}
