//! Who has the terminal: lines that move, or one question.
//!
//! Whoever asks takes the floor, and with it the keyboard. Invariant: there is one question at a time,
//! no line moves while it is open, and nothing answers it that was typed before.

use std::fmt;
use std::io::{self, Write as _};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, WeakProgressBar};
use tokio::sync::OwnedMutexGuard;

use crate::keyboard::Keyboard;

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
        for bar in self.bars.iter().filter_map(WeakProgressBar::upgrade) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
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
}
