//! Messages that wait for the user to read them.
//!
//! What the CLI asks comes through the same pipe as its messages, so that reading never waits for the
//! user: messages are kept. Invariant: no more bytes of them than the limit, one message aside. When
//! they come to more, the connection is given up with an error that says so.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::outcome::Outcome;
use crate::error::Error;

#[derive(Debug)]
pub(super) struct Inbox {
    kept: Mutex<Kept>,
    changed: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    messages: VecDeque<String>,
    bytes: usize,
    end: Option<Outcome>,
    /// The reader was told of a bad end: once is enough.
    is_told: bool,
}

/// What there is to read.
enum Look {
    Message(String),
    Loss(Error),
    Over,
    NothingYet,
}

/// There is no room for another message.
#[derive(Debug)]
pub(super) struct Full;

impl Inbox {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            kept: Mutex::default(),
            changed: Notify::new(),
            limit,
        }
    }

    pub(super) fn push(&self, message: String) -> Result<(), Full> {
        let mut kept = self.lock();
        if !kept.messages.is_empty() && kept.bytes + message.len() > self.limit {
            return Err(Full);
        }
        kept.bytes += message.len();
        kept.messages.push_back(message);
        drop(kept);
        self.changed.notify_one();
        Ok(())
    }

    /// No more messages come. Those that are there can still be read.
    pub(super) fn end(&self, outcome: Outcome) {
        self.lock().end.get_or_insert(outcome);
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// The next message; an error where the CLI was lost, once; `None` at the end.
    pub(super) async fn next(&self) -> Option<Result<String, Error>> {
        loop {
            let changed = self.changed.notified();
            match self.look() {
                Look::Message(message) => return Some(Ok(message)),
                Look::Loss(error) => return Some(Err(error)),
                Look::Over => return None,
                Look::NothingYet => {}
            }
            changed.await;
        }
    }

    fn look(&self) -> Look {
        let mut kept = self.lock();
        if let Some(message) = kept.messages.pop_front() {
            kept.bytes -= message.len();
            return Look::Message(message);
        }
        let Some(end) = kept.end.clone() else {
            return Look::NothingYet;
        };
        let is_told = std::mem::replace(&mut kept.is_told, true);
        drop(kept);
        // Whoever else waits learns of the end as well.
        self.changed.notify_one();
        match end {
            Outcome::Lost(lost) if !is_told => Look::Loss(lost.during("messages were read")),
            _ => Look::Over,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
