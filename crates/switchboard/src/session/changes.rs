//! What a server says has changed: many notices of one kind count as one until somebody takes it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// What may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Resources,
    Prompts,
}

#[derive(Debug, Default)]
pub(crate) struct Changes {
    tools: Notices,
    resources: Notices,
    prompts: Notices,
}

#[derive(Debug, Default)]
struct Notices {
    count: AtomicU64,
    /// Holds one permit however many notices came.
    waiting: Notify,
}

impl Changes {
    fn of(&self, change: Change) -> &Notices {
        match change {
            Change::Tools => &self.tools,
            Change::Resources => &self.resources,
            Change::Prompts => &self.prompts,
        }
    }

    pub(super) fn note(&self, change: Change) {
        let notices = self.of(change);
        notices.count.fetch_add(1, Ordering::Relaxed);
        notices.waiting.notify_one();
    }

    /// Nobody knows what changed while nobody listened.
    pub(super) fn note_all(&self) {
        for change in [Change::Tools, Change::Resources, Change::Prompts] {
            self.note(change);
        }
    }

    /// How many notices of a kind there were: as long as it stays, nothing has changed.
    pub(super) fn count(&self, change: Change) -> u64 {
        self.of(change).count.load(Ordering::Relaxed)
    }

    /// Comes back when there is a change that was not taken yet.
    pub(super) async fn changed(&self, change: Change) {
        self.of(change).waiting.notified().await;
    }
}
