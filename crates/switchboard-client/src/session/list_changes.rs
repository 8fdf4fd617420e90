//! Counts `list_changed` notifications per kind, and records whether they can arrive.
//!
//! A server may announce change notifications that cannot arrive: over HTTP they need an open
//! stream, and in the modern era an accepted subscription. Invariant: a kind counts as receivable
//! only while a notification of this kind would arrive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use switchboard_wire::decode;
use switchboard_wire::encode::ListChangeFilter;

/// The lists for which the protocol has change notifications. Templates share that of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListChangeKind {
    Tools,
    Resources,
    Prompts,
}

const ALL_KINDS: [ListChangeKind; 3] = [
    ListChangeKind::Tools,
    ListChangeKind::Resources,
    ListChangeKind::Prompts,
];

#[derive(Debug, Default)]
pub(crate) struct ListChanges {
    tools: ChangeCounter,
    resources: ChangeCounter,
    prompts: ChangeCounter,
    /// Id of the open `subscriptions/listen` request, or zero. Ids begin at one.
    listen_request: AtomicU64,
}

#[derive(Debug, Default)]
struct ChangeCounter {
    count: AtomicU64,
    /// Stores at most one permit: several notifications wake the waiting task once.
    changed: Notify,
    can_arrive: AtomicBool,
}

impl ListChanges {
    fn counter(&self, kind: ListChangeKind) -> &ChangeCounter {
        match kind {
            ListChangeKind::Tools => &self.tools,
            ListChangeKind::Resources => &self.resources,
            ListChangeKind::Prompts => &self.prompts,
        }
    }

    pub(super) fn record(&self, kind: ListChangeKind) {
        let counter = self.counter(kind);
        counter.count.fetch_add(1, Ordering::Relaxed);
        counter.changed.notify_one();
    }

    /// Records a change of every kind, because notifications may have been missed.
    pub(super) fn record_all(&self) {
        for kind in ALL_KINDS {
            self.record(kind);
        }
    }

    /// Whether a notification of this kind would arrive.
    pub(super) fn can_arrive(&self, kind: ListChangeKind) -> bool {
        // Acquire pairs with the Release store in `set_receivable`: a reader of `true` also sees
        // the counts that were recorded before.
        self.counter(kind).can_arrive.load(Ordering::Acquire)
    }

    pub(super) fn set_all_receivable(&self) {
        self.set_receivable(|_| true);
    }

    pub(super) fn set_none_receivable(&self) {
        self.listen_request.store(0, Ordering::Relaxed);
        self.set_receivable(|_| false);
    }

    fn set_receivable(&self, can_arrive: impl Fn(ListChangeKind) -> bool) {
        for kind in ALL_KINDS {
            let counter = self.counter(kind);
            counter
                .can_arrive
                .store(can_arrive(kind), Ordering::Release);
        }
    }

    /// Sets the id of the `subscriptions/listen` request that asks for notifications.
    pub(super) fn set_listen_request(&self, id: u64) {
        self.listen_request.store(id, Ordering::Relaxed);
    }

    /// Handles `notifications/subscriptions/acknowledged`: the kinds that the server accepted.
    pub(super) fn on_acknowledged(&self, params: &[u8]) {
        let listen_request = self.listen_request.load(Ordering::Relaxed);
        if listen_request == 0 {
            return;
        }
        let Some(notification) = decode::subscription_notification(params) else {
            return;
        };
        // A notification without an id belongs to this request if it names no resources.
        let is_ours = match notification.listen_request {
            Some(id) => id == listen_request,
            None => notification.accepted_uris.is_none(),
        };
        if is_ours {
            let ListChangeFilter {
                tools_list_changed,
                resources_list_changed,
                prompts_list_changed,
            } = notification.accepted_lists;
            self.set_receivable(|kind| match kind {
                ListChangeKind::Tools => tools_list_changed,
                ListChangeKind::Resources => resources_list_changed,
                ListChangeKind::Prompts => prompts_list_changed,
            });
        }
    }

    /// Handles `notifications/cancelled`: the server may have cancelled our listen request.
    pub(super) fn on_cancelled(&self, params: &[u8]) {
        let listen_request = self.listen_request.load(Ordering::Relaxed);
        if listen_request != 0 && decode::cancelled_id_number(params) == Some(listen_request) {
            self.set_none_receivable();
        }
    }

    /// Number of notifications of this kind. While it stays the same, so does the list.
    pub(super) fn count(&self, kind: ListChangeKind) -> u64 {
        self.counter(kind).count.load(Ordering::Relaxed)
    }

    /// Waits for a notification of this kind since the last call.
    pub(super) async fn changed(&self, kind: ListChangeKind) {
        self.counter(kind).changed.notified().await;
    }
}
