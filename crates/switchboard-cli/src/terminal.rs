//! Who has the terminal: lines that move, or one question.
//!
//! Whoever asks takes the terminal, and with it the input. Invariant: there is one question at a time,
//! no line moves and nothing is said stderr while it is open, and nothing answers it that was typed
//! before.

mod line_input;

use std::fmt;
use std::io::{self, Write as _};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, WeakProgressBar};
use tokio::sync::OwnedMutexGuard;

pub(crate) use line_input::{Echo, LineInput, TerminalModes, Typed, disable_stop_keys};

/// How much of what is said stderr waits for the end of a question. A person may think for long, and
/// servers may have much to write meanwhile; the first of it says what began to go wrong.
const MAX_DEFERRED_BYTES: usize = 64 * 1024;

/// The terminal, as everybody in this program shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terminal {
    input: Arc<tokio::sync::Mutex<LineInput>>,
    lines: Arc<Mutex<ProgressLines>>,
}

#[derive(Default)]
struct ProgressLines {
    /// A question is open.
    are_hidden: bool,
    /// Those that have not ended yet, and some that have.
    bars: Vec<WeakProgressBar>,
    deferred: DeferredOutput,
}

/// What was said stderr while a question is open.
#[derive(Default)]
struct DeferredOutput {
    text: Vec<u8>,
    /// What there was no room for.
    dropped: usize,
}

/// Where everything is written that is neither a question nor a result, such as logs. Each write is
/// whole lines.
#[derive(Debug)]
pub(crate) struct StderrWriter {
    lines: Arc<Mutex<ProgressLines>>,
}

/// The right to ask. ProgressLines move again when it is gone.
#[derive(Debug)]
pub(crate) struct TerminalGuard {
    input: OwnedMutexGuard<LineInput>,
    lines: Arc<Mutex<ProgressLines>>,
}

impl Terminal {
    /// Waits until no other question is open, and takes the terminal.
    pub(crate) async fn acquire(&self) -> TerminalGuard {
        let mut input = Arc::clone(&self.input).lock_owned().await;
        input.discard_input();
        lock(&self.lines).hide();
        TerminalGuard {
            input,
            lines: Arc::clone(&self.lines),
        }
    }

    /// Where to write something that is no part of a question.
    pub(crate) fn stderr(&self) -> StderrWriter {
        StderrWriter {
            lines: Arc::clone(&self.lines),
        }
    }

    /// A line begins to move, or will when no question is open.
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
            // Hiding a line leaves it where it was drawn last.
            let _ = io::stderr().write_all(b"\r\x1b[2K");
        }
    }

    fn show(&mut self) {
        self.are_hidden = false;
        // Without a stderr there is no place to complain about that.
        let _ = io::stderr().write_all(&mem::take(&mut self.deferred).into_text());
        for bar in self.bars.iter().filter_map(WeakProgressBar::upgrade) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl ProgressLines {
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.are_hidden {
            self.deferred.keep(text);
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
    fn keep(&mut self, text: &[u8]) {
        // In one piece: after the first that had no room, none has.
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
            let told = format!(
                "left out while the question was open: {} message{ending}\n",
                self.dropped
            );
            text.extend_from_slice(told.as_bytes());
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
    async fn there_is_one_question_at_a_time() {
        let terminal = Terminal::default();
        let first = terminal.acquire().await;
        let second = terminal.acquire();
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut second).is_ready());
    }

    #[tokio::test]
    async fn no_line_moves_while_a_question_is_open() {
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
    fn what_waits_for_the_end_of_a_question_is_bounded_and_the_rest_counted() {
        let mut deferred = DeferredOutput::default();
        let long = vec![b'x'; MAX_DEFERRED_BYTES - 1];
        for text in [&b"first\n"[..], &long, b"c", b"d"] {
            deferred.keep(text);
        }
        let told = "first\nleft out while the question was open: 3 messages\n";
        assert_eq!(String::from_utf8_lossy(&deferred.into_text()), told);
        assert!(DeferredOutput::default().into_text().is_empty());
    }
}
