//! Forwards progress of one request to its caller.
//!
//! Invariant: forwarding never waits. Progress that does not fit the caller's channel is dropped,
//! and the next one that fits carries the number of those dropped.

use tokio::sync::mpsc;

use switchboard_wire::mcp::Progress;

pub(super) struct ProgressForwarder {
    sender: mpsc::Sender<Progress>,
    /// Progress dropped since the last one that the channel accepted.
    skipped: u64,
}

impl ProgressForwarder {
    pub(super) fn new(sender: mpsc::Sender<Progress>) -> Self {
        Self { sender, skipped: 0 }
    }

    pub(super) fn forward(&mut self, mut progress: Progress) {
        progress.skipped = self.skipped;
        match self.sender.try_send(progress) {
            Ok(()) => self.skipped = 0,
            Err(_) => self.skipped += 1,
        }
    }

    pub(super) fn into_sender(self) -> mpsc::Sender<Progress> {
        self.sender
    }
}
