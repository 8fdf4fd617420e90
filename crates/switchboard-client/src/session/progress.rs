//! Forwards the progress of one request to its caller.
//!
//! Invariant: forwarding never waits. If the caller's channel is full, the progress is dropped. The
//! next progress that the channel accepts carries the number of dropped ones.

use tokio::sync::mpsc;

use switchboard_wire::mcp::Progress;

pub(super) struct ProgressForwarder {
    sender: mpsc::Sender<Progress>,
    /// Number of dropped progress values since the channel last accepted one.
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
