//! Moving lines on stderr, for a person who waits.
//!
//! Nothing is shown where nobody watches. Invariant: the line is gone when its [`ProgressLine`] is.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use switchboard::content::for_terminal;
use switchboard::mcp::Progress;

use super::style::Style;
use super::text::truncate;
use super::{Console, Verbosity, print_stderr};

const TICK: Duration = Duration::from_millis(100);

/// The columns of a bar where there is room for it, and where there is not.
const WIDE: usize = 24;
const NARROW: usize = 8;

/// What a line needs besides its bar and its text: the spinner, brackets, the percentage, and a `^C`
/// that the terminal echoes.
const OVERHEAD_COLUMNS: usize = 12;

/// Less than this is no room for text beside a wide bar.
const MIN_TEXT_COLUMNS: usize = 16;

/// What a bar counts to; servers count in whatever they like.
const STEPS: f64 = 1000.0;

/// One line that moves while something is under way.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
    /// How wide a bar is, and what of the line is left for text.
    width: usize,
    room: usize,
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
        let (width, room) = split_columns(console.stderr_columns.unwrap_or(80));
        let style = console.stderr_style;
        let line = Self {
            bar,
            width,
            room,
            style,
        };
        line.set_text(text);
        line
    }

    pub(crate) fn set_text(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(truncate(&for_terminal(text), self.room).into_owned());
        }
    }

    /// Shows how far a call has come: a bar where the server says how far it will go.
    pub(crate) fn set_progress(&self, note: &Progress) {
        let Some(bar) = &self.bar else { return };
        if let Some(message) = &note.message {
            self.set_text(message);
        }
        if let Some(part) = part_of(note) {
            let (spinner, width) = (spinner(self.style), self.width);
            let colour = match self.style {
                Style::Plain => "",
                Style::Coloured => ".cyan",
            };
            bar.set_style(style(&format!(
                "{spinner} [{{bar:{width}{colour}}}] {{percent:>3}}% {{msg}}"
            )));
            bar.set_length(1000);
            bar.set_position(part);
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

/// How wide the bar is on a line of so many columns, and how much is left for text.
fn split_columns(columns: usize) -> (usize, usize) {
    let width = if columns >= WIDE + OVERHEAD_COLUMNS + MIN_TEXT_COLUMNS {
        WIDE
    } else {
        NARROW.min(columns.saturating_sub(OVERHEAD_COLUMNS))
    };
    (width, columns.saturating_sub(width + OVERHEAD_COLUMNS))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("━╸─")
}

fn part_of(note: &Progress) -> Option<u64> {
    let total = note.total.filter(|total| *total > 0.0)?;
    let part = (note.progress / total * STEPS).clamp(0.0, STEPS);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between 0 and 1000"
    )]
    let part = part as u64;
    Some(part)
}

/// Tells a note in words, to whoever asked for more words and has no moving line.
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
    fn a_line_fits_its_terminal() {
        for columns in 0..300 {
            let (width, room) = split_columns(columns);
            assert!(
                width + room + OVERHEAD_COLUMNS <= columns.max(OVERHEAD_COLUMNS),
                "{columns}"
            );
        }
        assert_eq!(split_columns(80), (24, 44));
        assert_eq!(split_columns(40), (8, 20));
    }

    #[test]
    fn a_part_is_known_where_the_total_is() {
        let note = |progress: f64, total: Option<f64>| {
            let mut note = Progress::new(progress);
            note.total = total;
            part_of(&note)
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
