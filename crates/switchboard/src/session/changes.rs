//! What a server says has changed: many notices of one kind count as one until somebody takes it.
//!
//! A server that says so may still not be heard: it has to have a stream to say it on, and a modern one
//! has to agree. Invariant: a kind counts as heard only while a notice of it would arrive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::wire::decode;
use crate::wire::encode::Interests;

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
    /// The open `subscriptions/listen` that asks for them; zero, which no request has, without one.
    listen: AtomicU64,
}

const ALL: [Change; 3] = [Change::Tools, Change::Resources, Change::Prompts];

#[derive(Debug, Default)]
struct Notices {
    count: AtomicU64,
    /// Holds one permit however many notices came.
    waiting: Notify,
    is_heard: AtomicBool,
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
        for change in ALL {
            self.note(change);
        }
    }

    /// Whether a notice of this kind would arrive.
    pub(super) fn hears(&self, change: Change) -> bool {
        // Whoever sees this sees what was noted before, too.
        self.of(change).is_heard.load(Ordering::Acquire)
    }

    /// Whatever the server says from now on is heard.
    pub(super) fn hear_all(&self) {
        self.hear(|_| true);
    }

    /// Nothing that the server says is heard any more.
    pub(super) fn hear_none(&self) {
        self.listen.store(0, Ordering::Relaxed);
        self.hear(|_| false);
    }

    fn hear(&self, is_heard: impl Fn(Change) -> bool) {
        for change in ALL {
            let notices = self.of(change);
            notices.is_heard.store(is_heard(change), Ordering::Release);
        }
    }

    /// A modern server is asked for notices by the request of this id.
    pub(super) fn listen(&self, id: u64) {
        self.listen.store(id, Ordering::Relaxed);
    }

    /// The server says what of a `subscriptions/listen` it agreed to.
    pub(super) fn acknowledged(&self, params: &[u8]) {
        let listen = self.listen.load(Ordering::Relaxed);
        if listen == 0 {
            return;
        }
        let Some(notice) = decode::subscription_notice(params) else {
            return;
        };
        // Without an id it is meant for this one if it is about no resources.
        let is_ours = match notice.listen {
            Some(id) => id == listen,
            None => notice.agreed.is_none(),
        };
        if is_ours {
            let Interests {
                tools_list_changed,
                resources_list_changed,
                prompts_list_changed,
            } = notice.lists;
            self.hear(|change| match change {
                Change::Tools => tools_list_changed,
                Change::Resources => resources_list_changed,
                Change::Prompts => prompts_list_changed,
            });
        }
    }

    /// The server no longer answers a request of ours, if it was the one that asks for notices.
    pub(super) fn revoked(&self, params: &[u8]) {
        let listen = self.listen.load(Ordering::Relaxed);
        if listen != 0 && decode::cancelled_number(params) == Some(listen) {
            self.hear_none();
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
