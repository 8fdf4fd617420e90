//! Who has the terminal: lines that move, or one question.
//!
//! Whoever asks takes the floor, and with it the keyboard. Invariant: there is one question at a time,
//! no line moves and nothing is said aside while it is open, and nothing answers it that was typed
//! before.

use std::fmt;
use std::io::{self, Write as _};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, WeakProgressBar};
use tokio::sync::OwnedMutexGuard;

use super::count;
use crate::keyboard::Keyboard;

/// How much of what is said aside waits for the end of a question. A person may think for long, and
/// servers may have much to say meanwhile; the first of it says what began to go wrong.
const HELD_BYTES: usize = 64 * 1024;

/// The terminal, as everybody in this program shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floor {
    keyboard: Arc<tokio::sync::Mutex<Keyboard>>,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    /// A question is open.
    are_hidden: bool,
    /// Those that have not ended yet, and some that have.
    bars: Vec<WeakProgressBar>,
    held: Held,
}

/// What was said aside while a question is open.
#[derive(Default)]
struct Held {
    text: Vec<u8>,
    /// What there was no room for.
    left_out: usize,
}

/// Where everything is written that is neither a question nor a result, such as logs. Each write is
/// whole lines.
#[derive(Debug)]
pub(crate) struct Aside {
    lines: Arc<Mutex<Lines>>,
}

/// The right to ask. Lines move again when it is gone.
#[derive(Debug)]
pub(crate) struct Turn {
    keyboard: OwnedMutexGuard<Keyboard>,
    lines: Arc<Mutex<Lines>>,
}

impl Floor {
    /// Waits until no other question is open, and takes the floor.
    pub(crate) async fn take(&self) -> Turn {
        let mut keyboard = Arc::clone(&self.keyboard).lock_owned().await;
        keyboard.forget();
        lock(&self.lines).hide();
        Turn {
            keyboard,
            lines: Arc::clone(&self.lines),
        }
    }

    /// Where to say something that is no part of a question.
    pub(crate) fn aside(&self) -> Aside {
        Aside {
            lines: Arc::clone(&self.lines),
        }
    }

    /// A line begins to move, or will when no question is open.
    pub(crate) fn admit(&self, bar: &ProgressBar) {
        let mut lines = lock(&self.lines);
        lines.bars.retain(|bar| bar.upgrade().is_some());
        lines.bars.push(bar.downgrade());
        if lines.are_hidden {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}

impl Lines {
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
        let _ = io::stderr().write_all(&mem::take(&mut self.held).into_text());
        for bar in self.bars.iter().filter_map(WeakProgressBar::upgrade) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Lines {
    fn say(&mut self, text: &[u8]) -> io::Result<()> {
        if self.are_hidden {
            self.held.keep(text);
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

impl Held {
    fn keep(&mut self, text: &[u8]) {
        // In one piece: after the first that had no room, none has.
        if self.left_out > 0 || self.text.len() + text.len() > HELD_BYTES {
            self.left_out += 1;
            return;
        }
        self.text.extend_from_slice(text);
    }

    fn into_text(self) -> Vec<u8> {
        let mut text = self.text;
        if self.left_out > 0 {
            let what = count(self.left_out, "message");
            let told = format!("left out while the question was open: {what}\n");
            text.extend_from_slice(told.as_bytes());
        }
        text
    }
}

impl io::Write for Aside {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        lock(&self.lines).say(text)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("are_hidden", &self.are_hidden)
            .finish_non_exhaustive()
    }
}

impl Deref for Turn {
    type Target = Keyboard;

    fn deref(&self) -> &Keyboard {
        &self.keyboard
    }
}

impl DerefMut for Turn {
    fn deref_mut(&mut self) -> &mut Keyboard {
        &mut self.keyboard
    }
}

impl Drop for Turn {
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
        let floor = Floor::default();
        let first = floor.take().await;
        let second = floor.take();
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut second).is_ready());
    }

    #[tokio::test]
    async fn no_line_moves_while_a_question_is_open() {
        let floor = Floor::default();
        let early = ProgressBar::no_length();
        floor.admit(&early);
        let turn = floor.take().await;
        let late = ProgressBar::no_length();
        floor.admit(&late);
        assert!(early.is_hidden() && late.is_hidden());
        assert!(lock(&floor.lines).are_hidden);
        drop(turn);
        assert!(!lock(&floor.lines).are_hidden);
    }

    #[test]
    fn what_waits_for_the_end_of_a_question_is_bounded_and_the_rest_counted() {
        let mut held = Held::default();
        let long = vec![b'x'; HELD_BYTES - 1];
        for text in [&b"first\n"[..], &long, b"c", b"d"] {
            held.keep(text);
        }
        let told = "first\nleft out while the question was open: 3 messages\n";
        assert_eq!(String::from_utf8_lossy(&held.into_text()), told);
        assert!(Held::default().into_text().is_empty());
    }
}
