//! Counts `list_changed` notifications per kind, and records for each kind whether notifications
//! can arrive.
//!
//! A server may announce `list_changed` notifications that cannot arrive: over HTTP they need an
//! open stream, and in the modern era a subscription that the server accepted. Invariant: a kind
//! counts as receivable only while a notification of this kind would arrive if the server sent one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use switchboard_wire::decode;
use switchboard_wire::encode::ListChangeFilter;

/// The lists for which the protocol has `list_changed` notifications. `Resources` also covers
/// resource templates.
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
    tools: ReceivableChanges,
    resources: ReceivableChanges,
    prompts: ReceivableChanges,
    /// Id of the open `subscriptions/listen` request for list changes. Zero if there is none;
    /// request ids begin at one.
    listen_request: AtomicU64,
}

#[derive(Debug, Default)]
struct ReceivableChanges {
    count: AtomicU64,
    /// Notified on each change. Stores at most one permit, so several changes before a wait end
    /// only one wait.
    changed: Notify,
    can_arrive: AtomicBool,
}

impl ListChanges {
    fn counter(&self, kind: ListChangeKind) -> &ReceivableChanges {
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

    /// Whether a notification of this kind would arrive if the server sent one.
    pub(super) fn can_arrive(&self, kind: ListChangeKind) -> bool {
        // Acquire pairs with the Release store in `set_receivable`: a thread that reads `true` also
        // sees the counts that were recorded before the store.
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

    /// Sets the id of the `subscriptions/listen` request for list changes. Acknowledgements and
    /// cancellations of other requests are ignored.
    pub(super) fn set_listen_request(&self, id: u64) {
        self.listen_request.store(id, Ordering::Relaxed);
    }

    /// Handles `notifications/subscriptions/acknowledged`. The kinds that the server accepted
    /// become receivable, the others not receivable.
    pub(super) fn on_acknowledged(&self, params: &[u8]) {
        let listen_request = self.listen_request.load(Ordering::Relaxed);
        if listen_request == 0 {
            return;
        }
        let Some(notification) = decode::subscription_notification(params) else {
            return;
        };
        // An acknowledgement without a request id belongs to the request for list changes unless
        // it lists resource URIs.
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

    /// Handles `notifications/cancelled`. If the server cancelled the request for list changes, no
    /// kind is receivable any more.
    pub(super) fn on_cancelled(&self, params: &[u8]) {
        let listen_request = self.listen_request.load(Ordering::Relaxed);
        if listen_request != 0 && decode::cancelled_id_number(params) == Some(listen_request) {
            self.set_none_receivable();
        }
    }

    /// Number of recorded changes of this kind. A list is current if this number has not changed
    /// since the list was requested.
    pub(super) fn count(&self, kind: ListChangeKind) -> u64 {
        self.counter(kind).count.load(Ordering::Relaxed)
    }

    /// Waits for a change of this kind. Returns at once if one was recorded since the last call.
    pub(super) async fn changed(&self, kind: ListChangeKind) {
        self.counter(kind).changed.notified().await;
    }
}
