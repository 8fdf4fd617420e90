//! Moving lines on stderr, for a person who waits.
//!
//! Nothing is shown where nobody watches. Invariant: the line is gone when its [`Line`] is.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use switchboard::content::for_terminal;
use switchboard::mcp::Progress;

use super::style::Style;
use super::text::cut;
use super::{Screen, Talk, say_anyway};

const TICK: Duration = Duration::from_millis(100);

/// The columns of a bar where there is room for it, and where there is not.
const WIDE: usize = 24;
const NARROW: usize = 8;

/// What a line needs besides its bar and its text: the spinner, brackets, the percentage, and a `^C`
/// that the terminal echoes.
const BESIDE: usize = 12;

/// Less than this is no room for text beside a wide bar.
const SOME_TEXT: usize = 16;

/// What a bar counts to; servers count in whatever they like.
const STEPS: f64 = 1000.0;

/// One line that moves while something is under way.
#[derive(Debug)]
pub(crate) struct Line {
    bar: Option<ProgressBar>,
    /// How wide a bar is, and what of the line is left for text.
    width: usize,
    room: usize,
    style: Style,
}

impl Line {
    pub(crate) fn start(screen: &Screen, text: &str) -> Self {
        let is_shown = screen.is_watched && screen.talk != Talk::Quiet;
        let bar = is_shown.then(|| {
            let spinner = spinner(screen.side_style);
            let bar = ProgressBar::new_spinner().with_style(style(&format!("{spinner} {{msg}}")));
            screen.terminal.register(&bar);
            bar.enable_steady_tick(TICK);
            bar
        });
        let (width, room) = share(screen.side_columns.unwrap_or(80));
        let style = screen.side_style;
        let line = Self {
            bar,
            width,
            room,
            style,
        };
        line.say(text);
        line
    }

    pub(crate) fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(cut(&for_terminal(text), self.room).into_owned());
        }
    }

    /// Shows how far a call has come: a bar where the server says how far it will go.
    pub(crate) fn show(&self, note: &Progress) {
        let Some(bar) = &self.bar else { return };
        if let Some(message) = &note.message {
            self.say(message);
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

impl Drop for Line {
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
fn share(columns: usize) -> (usize, usize) {
    let width = if columns >= WIDE + BESIDE + SOME_TEXT {
        WIDE
    } else {
        NARROW.min(columns.saturating_sub(BESIDE))
    };
    (width, columns.saturating_sub(width + BESIDE))
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
pub(crate) fn tell(screen: &Screen, note: &Progress) {
    if screen.is_watched || screen.talk != Talk::Verbose {
        return;
    }
    let total = note.total.map(|total| format!(" of {total}"));
    let message = note
        .message
        .as_deref()
        .map(for_terminal)
        .map(|text| format!(": {text}"));
    say_anyway(&format!(
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
            let (width, room) = share(columns);
            assert!(width + room + BESIDE <= columns.max(BESIDE), "{columns}");
        }
        assert_eq!(share(80), (24, 44));
        assert_eq!(share(40), (8, 20));
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
