//! What is told of a task on its way, to a caller who wants to know.

use tokio::sync::mpsc;

use crate::mcp::Progress;

/// What was told so far.
#[derive(Default)]
pub(super) struct Notes {
    last: Option<String>,
    count: u32,
    /// Notes dropped since the last one that was taken.
    skipped: u64,
}

impl Notes {
    /// Passes on what the server says, if that is news.
    pub(super) fn tell(&mut self, listener: &mpsc::Sender<Progress>, message: String) {
        if self.last.as_ref() == Some(&message) {
            return;
        }
        let note = Progress {
            message: Some(message.clone()),
            skipped: self.skipped,
            ..Progress::new(self.count.into())
        };
        self.skipped = match listener.try_send(note) {
            Ok(()) => 0,
            Err(_) => self.skipped + 1,
        };
        self.count = self.count.saturating_add(1);
        self.last = Some(message);
    }
}
