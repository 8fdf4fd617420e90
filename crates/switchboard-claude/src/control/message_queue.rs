//! The queue of messages that the CLI sent and the user has not read yet.
//!
//! Requests of the CLI arrive on the same stream as its messages. The reader task must not delay
//! the requests, so it never waits for the user but puts messages into this queue. Invariant: the
//! queue holds at most `max_bytes`, or a single longer message. If a message does not fit, the
//! connection ends with an error.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::close_reason::CloseReason;
use crate::error::Error;

#[derive(Debug)]
pub(super) struct MessageQueue {
    state: Mutex<QueueState>,
    changed: Notify,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    messages: VecDeque<String>,
    bytes: usize,
    end: Option<CloseReason>,
    /// Whether reading has returned the error of a lost connection. The error is returned once;
    /// after that, reading returns `None`.
    loss_reported: bool,
}

enum NextItem {
    Message(String),
    Lost(Error),
    End,
    Empty,
}

/// The error for a message that does not fit into the queue.
#[derive(Debug)]
pub(super) struct QueueFull;

impl MessageQueue {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            max_bytes,
        }
    }

    pub(super) fn push(&self, message: String) -> Result<(), QueueFull> {
        let mut state = self.lock();
        if !state.messages.is_empty() && state.bytes + message.len() > self.max_bytes {
            return Err(QueueFull);
        }
        state.bytes += message.len();
        state.messages.push_back(message);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Marks the end of the connection. Messages in the queue can still be read.
    pub(super) fn end(&self, reason: CloseReason) {
        self.lock().end.get_or_insert(reason);
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Returns the next message and waits for it if the queue is empty. If the connection was lost,
    /// returns the error once after the last message. Then returns `None`.
    pub(super) async fn next(&self) -> Option<Result<String, Error>> {
        loop {
            let changed = self.changed.notified();
            match self.pop() {
                NextItem::Message(message) => return Some(Ok(message)),
                NextItem::Lost(error) => return Some(Err(error)),
                NextItem::End => return None,
                NextItem::Empty => {}
            }
            changed.await;
        }
    }

    fn pop(&self) -> NextItem {
        let mut state = self.lock();
        if let Some(message) = state.messages.pop_front() {
            state.bytes -= message.len();
            return NextItem::Message(message);
        }
        let Some(end) = state.end.clone() else {
            return NextItem::Empty;
        };
        let loss_reported = std::mem::replace(&mut state.loss_reported, true);
        drop(state);
        // Wake another waiting reader, so that it sees the end of the connection, too.
        self.changed.notify_one();
        match end {
            CloseReason::Lost(lost) if !loss_reported => {
                NextItem::Lost(lost.to_error("reading messages"))
            }
            _ => NextItem::End,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
