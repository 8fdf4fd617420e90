//! Shares the terminal between progress lines, log output and questions.
//!
//! A [`TerminalGuard`] grants the right to ask and to read lines. Invariant: one question is open
//! at a time; while a question is open, progress lines are hidden, other output to stderr is
//! deferred, and only input typed after the question was shown answers the question.

mod line_input;
mod resume;

use std::fmt;
use std::io::{self, Write as _};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, WeakProgressBar};
use tokio::sync::OwnedMutexGuard;

pub(crate) use line_input::{Echo, LineInput, TerminalModes, Typed, disable_stop_keys};
pub(crate) use resume::with_modes_kept;

/// Maximum bytes of stderr output that are deferred while a question is open: the user may take
/// long to answer, and servers may log much. When a message does not fit, that message and all
/// later ones are dropped; the first ones usually show the cause of a failure.
const MAX_DEFERRED_BYTES: usize = 64 * 1024;

/// Coordinates questions, progress lines and output to stderr on the terminal. Clones share the
/// same state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terminal {
    input: Arc<tokio::sync::Mutex<LineInput>>,
    lines: Arc<Mutex<ProgressLines>>,
}

#[derive(Default)]
struct ProgressLines {
    /// Whether a question is open.
    are_hidden: bool,
    /// The registered progress bars. Dropped bars are removed when the next bar is registered.
    bars: Vec<WeakProgressBar>,
    deferred: DeferredOutput,
}

/// Output to stderr that waits until the question is answered.
#[derive(Default)]
struct DeferredOutput {
    text: Vec<u8>,
    /// The number of messages that were dropped because of [`MAX_DEFERRED_BYTES`].
    dropped: usize,
}

/// A writer for output that is neither a question nor a result, such as logs. Each write must
/// consist of whole lines.
#[derive(Debug)]
pub(crate) struct StderrWriter {
    lines: Arc<Mutex<ProgressLines>>,
}

/// The right to ask a question on the terminal. When the guard is dropped, deferred output is
/// printed and progress lines reappear.
#[derive(Debug)]
pub(crate) struct TerminalGuard {
    input: OwnedMutexGuard<LineInput>,
    lines: Arc<Mutex<ProgressLines>>,
}

impl Terminal {
    /// Waits until no other question is open, then hides the progress lines.
    pub(crate) async fn acquire(&self) -> TerminalGuard {
        let mut input = Arc::clone(&self.input).lock_owned().await;
        input.discard_input();
        lock(&self.lines).hide();
        TerminalGuard {
            input,
            lines: Arc::clone(&self.lines),
        }
    }

    pub(crate) fn stderr(&self) -> StderrWriter {
        StderrWriter {
            lines: Arc::clone(&self.lines),
        }
    }

    /// Adds a progress bar, which is hidden while a question is open.
    pub(crate) fn register(&self, bar: &ProgressBar) {
        let mut lines = lock(&self.lines);
        lines.bars.retain(|bar| bar.upgrade().is_some());
        lines.bars.push(bar.downgrade());
        if lines.are_hidden {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}

impl ProgressLines {
    fn hide(&mut self) {
        self.are_hidden = true;
        let bars: Vec<_> = self
            .bars
            .iter()
            .filter_map(WeakProgressBar::upgrade)
            .collect();
        for bar in &bars {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if !bars.is_empty() {
            // Hiding a bar does not erase the line that it drew last.
            let _ = io::stderr().write_all(b"\r\x1b[2K");
        }
    }

    fn show(&mut self) {
        self.are_hidden = false;
        // Ignore: if stderr is closed, there is no place to print the error.
        let _ = io::stderr().write_all(&mem::take(&mut self.deferred).into_text());
        for bar in self.bars.iter().filter_map(WeakProgressBar::upgrade) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.are_hidden {
            self.deferred.push(text);
            return Ok(());
        }
        let mut bars = self.bars.iter().filter_map(WeakProgressBar::upgrade);
        let write = || io::stderr().write_all(text);
        match bars.rfind(|bar| !bar.is_finished()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl DeferredOutput {
    fn push(&mut self, text: &[u8]) {
        // After the first dropped message all later ones are dropped, so that the kept output has
        // no gaps.
        if self.dropped > 0 || self.text.len() + text.len() > MAX_DEFERRED_BYTES {
            self.dropped += 1;
            return;
        }
        self.text.extend_from_slice(text);
    }

    fn into_text(self) -> Vec<u8> {
        let mut text = self.text;
        if self.dropped > 0 {
            let ending = if self.dropped == 1 { "" } else { "s" };
            let note = format!(
                "{} message{ending} dropped while waiting for your answer\n",
                self.dropped
            );
            text.extend_from_slice(note.as_bytes());
        }
        text
    }
}

impl io::Write for StderrWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        lock(&self.lines).write(text)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for ProgressLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressLines")
            .field("are_hidden", &self.are_hidden)
            .finish_non_exhaustive()
    }
}

impl Deref for TerminalGuard {
    type Target = LineInput;

    fn deref(&self) -> &LineInput {
        &self.input
    }
}

impl DerefMut for TerminalGuard {
    fn deref_mut(&mut self) -> &mut LineInput {
        &mut self.input
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        lock(&self.lines).show();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_question_is_open_at_a_time() {
        let terminal = Terminal::default();
        let first = terminal.acquire().await;
        let second = terminal.acquire();
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut second).is_ready());
    }

    #[tokio::test]
    async fn question_hides_progress_lines() {
        let terminal = Terminal::default();
        let early = ProgressBar::no_length();
        terminal.register(&early);
        let guard = terminal.acquire().await;
        let late = ProgressBar::no_length();
        terminal.register(&late);
        assert!(early.is_hidden() && late.is_hidden());
        assert!(lock(&terminal.lines).are_hidden);
        drop(guard);
        assert!(!lock(&terminal.lines).are_hidden);
    }

    #[test]
    fn deferred_output_is_bounded_and_counted() {
        let mut deferred = DeferredOutput::default();
        let long = vec![b'x'; MAX_DEFERRED_BYTES - 1];
        for text in [&b"first\n"[..], &long, b"c", b"d"] {
            deferred.push(text);
        }
        let expected = "first\n3 messages dropped while waiting for your answer\n";
        assert_eq!(String::from_utf8_lossy(&deferred.into_text()), expected);
        assert!(DeferredOutput::default().into_text().is_empty());
    }
}
