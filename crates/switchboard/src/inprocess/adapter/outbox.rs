//! The lines that wait for a server which is slow to read.
//!
//! Invariant: lines are written in the order in which they were taken. What nobody can wait for with
//! it (that a request is cancelled, or refused) is not lost because the others take all the room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, timeout_at};

use crate::sync::lock;

/// How many lines may wait. Whoever brings one more waits itself.
const LINES: usize = 1024;
/// How many may be owed besides. One more is lost: the server has not read for very long then.
const OWED: usize = 1024;

pub(super) struct Outbox {
    lines: mpsc::Sender<String>,
    /// For which there was no room.
    owed: Mutex<VecDeque<String>>,
}

impl Outbox {
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<String>) {
        let (lines, to_write) = mpsc::channel(LINES);
        let owed = Mutex::default();
        (Arc::new(Self { lines, owed }), to_write)
    }

    /// Puts a line in its place in the order; it comes back if there is no room for it.
    pub(super) fn submit(&self, text: &str) -> Option<String> {
        match self.lines.try_send(as_line(text)) {
            Err(TrySendError::Full(line)) => Some(line),
            // If it is closed all requests fail, and this one with them.
            Ok(()) | Err(TrySendError::Closed(_)) => None,
        }
    }

    /// Says whether the line got its place in time.
    pub(super) async fn wait_for_room(&self, line: Option<String>, end: Instant) -> bool {
        match line {
            Some(line) => matches!(timeout_at(end, self.lines.send(line)).await, Ok(Ok(()))),
            None => true,
        }
    }

    /// Has a line written when there is room for it.
    pub(super) fn owe(&self, text: &str) {
        let mut owed = lock(&self.owed);
        if owed.len() < OWED {
            owed.push_back(as_line(text));
        } else {
            tracing::debug!("a server in this process reads nothing, and is not told any more");
        }
        self.pay(&mut owed);
    }

    fn pay(&self, owed: &mut VecDeque<String>) {
        while let Some(line) = owed.pop_front() {
            if let Err(TrySendError::Full(line)) = self.lines.try_send(line) {
                owed.push_front(line);
                return;
            }
        }
    }

    /// Writes what is taken, until that fails.
    pub(super) async fn write(
        &self,
        mut writer: impl AsyncWrite + Unpin,
        mut to_write: mpsc::Receiver<String>,
    ) -> String {
        let failed = |error: std::io::Error| format!("writing failed: {error}");
        while let Some(line) = to_write.recv().await {
            // There is room for one more now.
            self.pay(&mut lock(&self.owed));
            if let Err(error) = writer.write_all(line.as_bytes()).await {
                return failed(error);
            }
            if to_write.is_empty()
                && let Err(error) = writer.flush().await
            {
                return failed(error);
            }
        }
        "nobody needs it any more".to_owned()
    }
}

/// Line ends in JSON are white space, and on the wire they end the message.
fn as_line(text: &str) -> String {
    let mut line = text.replace(['\n', '\r'], " ");
    line.push('\n');
    line
}
