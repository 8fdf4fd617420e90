//! The lines that wait to be written to a stream server.
//!
//! Invariant: lines are written in the order in which they were queued. A message waits for room in
//! the queue. A control line (a cancellation, or the refusal of a server's request) is queued by
//! code that cannot wait, so it has its own limit and does not depend on that room.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Mutex;

use switchboard_wire::sync::lock;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum number of queued messages. Senders of further ones wait.
const MAX_MESSAGES: usize = 1024;
/// Maximum number of queued control lines. Further ones are dropped,
/// because the server does not read its input.
const MAX_CONTROL_LINES: usize = 1024;

pub(super) struct WriteQueue {
    lines: Mutex<VecDeque<QueuedLine>>,
    /// One permit per message that may still be queued. Fair, so that waiting senders keep their
    /// order.
    room: Semaphore,
    /// Wakes the writer.
    queued: Notify,
}

enum QueuedLine {
    /// Returns its permit when it is taken from the queue.
    Message(String),
    Control(String),
}

impl WriteQueue {
    pub(super) fn new() -> Self {
        Self {
            lines: Mutex::default(),
            room: Semaphore::new(MAX_MESSAGES),
            queued: Notify::new(),
        }
    }

    /// Queues a message. Returns the line if the queue is full.
    pub(super) fn try_send(&self, text: &str) -> Option<String> {
        let line = to_line(text);
        match self.room.try_acquire() {
            Ok(permit) => {
                permit.forget();
                self.push(QueuedLine::Message(line));
                None
            }
            Err(_) => Some(line),
        }
    }

    /// Waits until `deadline` to queue the line that [`try_send`](Self::try_send) returned, if any.
    /// Returns whether the message is queued.
    pub(super) async fn send_before(&self, deadline: Instant, line: Option<String>) -> bool {
        let Some(line) = line else {
            return true;
        };
        match timeout_at(deadline, self.room.acquire()).await {
            Ok(Ok(permit)) => {
                permit.forget();
                self.push(QueuedLine::Message(line));
                true
            }
            _ => false,
        }
    }

    /// Queues a control line without waiting.
    pub(super) fn send_control(&self, text: &str) {
        let is_control = |line: &&QueuedLine| matches!(line, QueuedLine::Control(_));
        if lock(&self.lines).iter().filter(is_control).count() < MAX_CONTROL_LINES {
            self.push(QueuedLine::Control(to_line(text)));
        } else {
            tracing::debug!(
                "in-process server does not read its input; dropping a control message"
            );
        }
    }

    fn push(&self, line: QueuedLine) {
        lock(&self.lines).push_back(line);
        self.queued.notify_one();
    }

    fn pop(&self) -> Option<String> {
        match lock(&self.lines).pop_front()? {
            QueuedLine::Message(line) => {
                self.room.add_permits(1);
                Some(line)
            }
            QueuedLine::Control(line) => Some(line),
        }
    }

    /// Writes queued lines. Returns only if writing fails.
    pub(super) async fn write_to(
        &self,
        mut writer: impl AsyncWrite + Unpin,
    ) -> io::Result<Infallible> {
        loop {
            self.queued.notified().await;
            while let Some(line) = self.pop() {
                writer.write_all(line.as_bytes()).await?;
            }
            writer.flush().await?;
        }
    }

    /// Fails all waiting and future senders.
    pub(super) fn close(&self) {
        self.room.close();
    }
}

/// Line breaks are white space in JSON, but would end the message on the stream.
fn to_line(text: &str) -> String {
    let mut line = text.replace(['\n', '\r'], " ");
    line.push('\n');
    line
}
