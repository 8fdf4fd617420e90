//! The lines that wait to be written to a server that speaks JSON-RPC over a byte stream.
//!
//! A message of the client waits if the queue is full. A control line cancels a request of the
//! client or refuses a request of the server. The code that queues control lines cannot wait.
//! Control lines therefore have a limit of their own and are queued even if there is no room for
//! another message.
//!
//! Invariant: lines are written in the order in which they were queued.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Mutex;

use switchboard_wire::sync::lock;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum number of queued messages. Senders of further messages wait.
const MAX_MESSAGES: usize = 1024;
/// Maximum number of queued control lines. Further control lines are dropped, because the server
/// does not read its input.
const MAX_CONTROL_LINES: usize = 1024;

pub(super) struct ServerInputQueue {
    lines: Mutex<VecDeque<QueuedLine>>,
    /// Holds one permit per message that may still be queued. Semaphores are fair, so messages of
    /// waiting senders keep their order.
    room: Semaphore,
    /// Wakes [`write_to`](Self::write_to) after a line was queued.
    queued: Notify,
}

enum QueuedLine {
    /// A message of the client. When it is taken from the queue, its permit is returned to `room`.
    Message(String),
    Control(String),
}

impl ServerInputQueue {
    pub(super) fn new() -> Self {
        Self {
            lines: Mutex::default(),
            room: Semaphore::new(MAX_MESSAGES),
            queued: Notify::new(),
        }
    }

    /// Queues a message. If [`MAX_MESSAGES`] messages are queued or other senders wait for room,
    /// returns the message as a line for [`send_before`](Self::send_before).
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

    /// Waits for room and queues the line that [`try_send`](Self::try_send) returned. Gives up at
    /// `deadline`. Returns whether the message is queued. If `line` is `None`, the message was
    /// queued before.
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

    /// Queues a control line without waiting. Drops the line if [`MAX_CONTROL_LINES`] control lines
    /// are queued.
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

    /// Writes queued lines, and waits for further ones. Returns only if a write fails.
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

    /// Makes all waiting and future senders of messages fail.
    pub(super) fn close(&self) {
        self.room.close();
    }
}

/// Turns a JSON text into one line. Replaces line breaks, which are white space in JSON but would
/// end the message on the stream.
fn to_line(text: &str) -> String {
    let mut line = text.replace(['\n', '\r'], " ");
    line.push('\n');
    line
}
