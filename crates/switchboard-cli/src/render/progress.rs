//! Moving lines on stderr, for a person who waits.
//!
//! Nothing is shown where nobody watches. Invariant: the line is gone when its [`Line`] is.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use switchboard::content::for_terminal;
use switchboard::mcp::Progress;

use super::text::cut;
use super::{Screen, Talk, say_anyway};

const TICK: Duration = Duration::from_millis(100);

/// What a line needs besides its text.
const BESIDE_TEXT: usize = 36;

/// What a bar counts to; servers count in whatever they like.
const STEPS: f64 = 1000.0;

/// One line that moves while something is under way.
#[derive(Debug)]
pub(crate) struct Line {
    bar: Option<ProgressBar>,
    /// The columns that text may take: beside the bar, and beside a `^C` that the terminal echoes.
    room: usize,
}

impl Line {
    pub(crate) fn start(screen: &Screen, text: &str) -> Self {
        let is_shown = screen.is_watched && screen.talk != Talk::Quiet;
        let bar = is_shown.then(|| {
            let bar = ProgressBar::new_spinner().with_style(style("{spinner:.cyan} {msg}"));
            screen.floor.admit(&bar);
            bar.enable_steady_tick(TICK);
            bar
        });
        let room = screen
            .side_columns
            .unwrap_or(80)
            .saturating_sub(BESIDE_TEXT);
        let line = Self { bar, room };
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
            bar.set_style(style("{spinner:.cyan} [{bar:24.cyan}] {percent:>3}% {msg}"));
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
