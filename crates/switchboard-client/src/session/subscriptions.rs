//! Resource subscriptions of one session.
//!
//! A caller holds a [`Subscription`] per resource and drops it to unsubscribe. One task per session
//! keeps the server's subscriptions in line with the callers': [`legacy`] with one request per URI,
//! [`modern`] with one `subscriptions/listen` for all URIs.
//!
//! Invariants: several subscriptions to one URI cause one request; update notifications do not
//! accumulate.

mod legacy;
mod modern;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) use modern::ListenEnd;

use super::Session;
use switchboard_wire::decode;
use switchboard_wire::decode::SubscriptionNotification;
use switchboard_wire::mcp::Era;
use switchboard_wire::sync::lock;

/// How long a server may take to accept a subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(30);
/// A notification may name a part of a subscribed resource. This many ancestors of its URI are looked up.
const MAX_ANCESTORS: usize = 32;

type Uris = BTreeSet<Arc<str>>;

pub(super) struct Subscriptions {
    tasks: TaskTracker,
    state: Mutex<SubscriptionState>,
    /// Wakes the subscription task after a URI was added or removed.
    changed: Notify,
}

#[derive(Default)]
struct SubscriptionState {
    uris: HashMap<Arc<str>, SubscribedUri>,
    /// The server sends updates of every resource without a request.
    needs_no_request: bool,
    /// The subscription task was spawned.
    task_running: bool,
    /// Why notifications cannot arrive, if they cannot.
    unavailable: Option<Arc<str>>,
    /// The open `subscriptions/listen` requests: one, or two while the second replaces the first.
    listens: Vec<Arc<ListenRequest>>,
}

/// A URI with at least one subscription.
struct SubscribedUri {
    /// Number of subscriptions.
    count: usize,
    state: watch::Sender<UriState>,
}

#[derive(Clone, Default)]
struct UriState {
    /// Number of update notifications.
    updates: u64,
    acceptance: Acceptance,
}

#[derive(Clone, Default)]
enum Acceptance {
    /// The request is in flight, or will be sent.
    #[default]
    Pending,
    Active,
    /// The server does not send updates, or no longer does, for this reason.
    Rejected(Arc<str>),
}

/// One `subscriptions/listen` request.
struct ListenRequest {
    /// Request id; zero until it is sent.
    id: AtomicU64,
    uris: Uris,
    is_acknowledged: CancellationToken,
    /// Cancelled when the server cancelled the request.
    is_cancelled: CancellationToken,
}

/// Why a server sends no updates of a resource.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotSubscribed(pub Arc<str>);

#[derive(Debug)]
pub enum SubscriptionEvent {
    /// The resource changed, at least once.
    Updated,
    /// No more updates will arrive.
    Ended(NotSubscribed),
}

/// A subscription to one resource. Dropping it unsubscribes.
pub struct Subscription {
    session: Session,
    uri: Arc<str>,
    state: watch::Receiver<UriState>,
    /// Number of updates that were reported to the caller.
    seen_updates: u64,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Subscribes to updates of a resource.
    pub async fn subscribe(&self, uri: &str) -> Result<Subscription, NotSubscribed> {
        if !self.capabilities().resources_subscribe {
            return Err(NotSubscribed(
                "the server does not support subscriptions".into(),
            ));
        }
        let mut subscription = self.subscriptions().add(self, uri);
        match timeout(SUBSCRIBE_TIMEOUT, subscription.accepted()).await {
            Ok(outcome) => outcome.map(|()| subscription),
            Err(_) => Err(NotSubscribed("the server did not respond in time".into())),
        }
    }
}

impl Subscription {
    async fn accepted(&mut self) -> Result<(), NotSubscribed> {
        let is_decided = |state: &UriState| !matches!(state.acceptance, Acceptance::Pending);
        match self.state.wait_for(is_decided).await {
            Ok(state) => match &state.acceptance {
                Acceptance::Rejected(why) => Err(NotSubscribed(Arc::clone(why))),
                _ => Ok(()),
            },
            Err(_) => Err(NotSubscribed("the session ended".into())),
        }
    }

    /// Whether there were updates since the last call.
    pub fn take_pending(&mut self) -> bool {
        let updates = self.state.borrow_and_update().updates;
        std::mem::replace(&mut self.seen_updates, updates) != updates
    }

    /// Waits for the next event. Several updates count as one. Cancel safe.
    pub async fn next(&mut self) -> SubscriptionEvent {
        loop {
            let UriState {
                updates,
                acceptance,
            } = self.state.borrow_and_update().clone();
            if let Acceptance::Rejected(why) = acceptance {
                return SubscriptionEvent::Ended(NotSubscribed(why));
            }
            if updates != self.seen_updates {
                self.seen_updates = updates;
                return SubscriptionEvent::Updated;
            }
            if self.state.changed().await.is_err() {
                return SubscriptionEvent::Ended(NotSubscribed("the session ended".into()));
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.session.subscriptions().remove(&self.uri);
    }
}

impl Subscriptions {
    pub(super) fn new(tasks: &TaskTracker) -> Self {
        Self {
            tasks: tasks.clone(),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Subscriptions to a server that sends all updates without a request.
    pub(super) fn without_requests(tasks: &TaskTracker) -> Self {
        let subscriptions = Self::new(tasks);
        lock(&subscriptions.state).needs_no_request = true;
        subscriptions
    }

    fn add(&self, session: &Session, uri: &str) -> Subscription {
        let mut state = lock(&self.state);
        let uri: Arc<str> = uri.into();
        let acceptance = match &state.unavailable {
            Some(why) => Acceptance::Rejected(Arc::clone(why)),
            None if state.needs_no_request => Acceptance::Active,
            None => Acceptance::Pending,
        };
        let subscribed = state.uris.entry(Arc::clone(&uri)).or_insert_with(|| {
            self.changed.notify_one();
            SubscribedUri {
                count: 0,
                state: watch::Sender::new(UriState {
                    updates: 0,
                    acceptance,
                }),
            }
        });
        subscribed.count += 1;
        let receiver = subscribed.state.subscribe();
        let seen_updates = receiver.borrow().updates;
        if !state.needs_no_request && !std::mem::replace(&mut state.task_running, true) {
            self.tasks.spawn(run(session.clone()));
        }
        drop(state);
        Subscription {
            session: session.clone(),
            uri,
            state: receiver,
            seen_updates,
        }
    }

    fn remove(&self, uri: &str) {
        let mut state = lock(&self.state);
        let Some(subscribed) = state.uris.get_mut(uri) else {
            return;
        };
        subscribed.count -= 1;
        if subscribed.count == 0 {
            state.uris.remove(uri);
            self.changed.notify_one();
        }
    }

    /// The URIs to subscribe to. Rejected ones are not requested again.
    fn wanted_uris(&self) -> Uris {
        let state = lock(&self.state);
        let wanted = state.uris.iter().filter(|(_, uri)| uri.is_wanted());
        wanted.map(|(uri, _)| Arc::clone(uri)).collect()
    }

    /// Whether to subscribe to this URI.
    fn wants(&self, uri: &str) -> bool {
        let state = lock(&self.state);
        state.uris.get(uri).is_some_and(SubscribedUri::is_wanted)
    }

    /// Whether a subscription to one of these URIs waits for acceptance.
    fn any_pending(&self, uris: &Uris) -> bool {
        let state = lock(&self.state);
        let mut subscribed = uris.iter().filter_map(|uri| state.uris.get(uri));
        subscribed.any(|uri| matches!(uri.state.borrow().acceptance, Acceptance::Pending))
    }

    /// Sets the acceptance of a URI that is still pending.
    fn resolve_pending(&self, uri: &str, acceptance: Acceptance) {
        if let Some(subscribed) = lock(&self.state).uris.get(uri) {
            subscribed.state.send_if_modified(|state| {
                let is_pending = matches!(state.acceptance, Acceptance::Pending);
                if is_pending {
                    state.acceptance = acceptance;
                }
                is_pending
            });
        }
    }

    fn set_acceptance(&self, uri: &str, acceptance: Acceptance) {
        if let Some(subscribed) = lock(&self.state).uris.get(uri) {
            subscribed
                .state
                .send_modify(|state| state.acceptance = acceptance);
        }
    }

    fn reject<'a>(&self, uris: impl IntoIterator<Item = &'a Arc<str>>, why: &Arc<str>) {
        for uri in uris {
            self.set_acceptance(uri, Acceptance::Rejected(Arc::clone(why)));
        }
    }

    /// Rejects all subscriptions, present and future ones: notifications cannot arrive.
    pub(super) fn mark_unavailable(&self, why: Arc<str>) {
        let mut state = lock(&self.state);
        for subscribed in state.uris.values() {
            let acceptance = Acceptance::Rejected(Arc::clone(&why));
            subscribed
                .state
                .send_modify(|state| state.acceptance = acceptance);
        }
        state.unavailable = Some(why);
        self.changed.notify_one();
    }

    /// Allows subscriptions again. Those rejected before stay rejected: their callers poll by now.
    pub(super) fn mark_available(&self) {
        lock(&self.state).unavailable = None;
    }

    /// Reports an update of every URI, because notifications may have been missed.
    pub(super) fn record_all(&self) {
        for subscribed in lock(&self.state).uris.values() {
            subscribed.record_update();
        }
    }

    /// Reports an update of these URIs, because notifications may have been missed.
    fn record_some(&self, uris: &Uris) {
        let state = lock(&self.state);
        for subscribed in uris.iter().filter_map(|uri| state.uris.get(uri)) {
            subscribed.record_update();
        }
    }

    /// Handles `notifications/resources/updated`.
    pub(super) fn on_updated(&self, params: &[u8]) {
        if lock(&self.state).uris.is_empty() {
            return;
        }
        let Some(SubscriptionNotification {
            uri,
            listen_request,
            ..
        }) = decode::subscription_notification(params)
        else {
            return;
        };
        let state = lock(&self.state);
        let is_ours = |id: u64| {
            state.listens.is_empty() || state.listens.iter().any(|listen| listen.has_id(id))
        };
        if !listen_request.is_none_or(is_ours) {
            return;
        }
        state.record_update(&uri.unwrap_or_default());
    }

    /// Reports an update of the resource with this URI, or of a part of it.
    pub(super) fn record_update(&self, uri: &str) {
        lock(&self.state).record_update(uri);
    }

    /// Handles `notifications/subscriptions/acknowledged`: the URIs that the server accepted.
    pub(super) fn on_acknowledged(&self, params: &[u8]) {
        if lock(&self.state).listens.is_empty() {
            return;
        }
        let Some(notification) = decode::subscription_notification(params) else {
            return;
        };
        let listen = {
            let state = lock(&self.state);
            let mut listens = state.listens.iter();
            let acknowledged = match notification.listen_request {
                Some(id) => listens.find(|listen| listen.has_id(id)),
                // Without an id it can only belong to the request that waits for it.
                None if notification.accepted_uris.is_some() => {
                    listens.find(|listen| !listen.is_acknowledged.is_cancelled())
                }
                None => None,
            };
            acknowledged.cloned()
        };
        let Some(listen) = listen else { return };
        let accepted = notification.accepted_uris.unwrap_or_default();
        let accepted: BTreeSet<&str> = accepted.iter().map(String::as_str).collect();
        let why: Arc<str> = "the server did not accept the subscription".into();
        for uri in &listen.uris {
            let acceptance = if accepted.contains(&**uri) {
                Acceptance::Active
            } else {
                Acceptance::Rejected(Arc::clone(&why))
            };
            self.set_acceptance(uri, acceptance);
        }
        listen.is_acknowledged.cancel();
    }

    /// Handles `notifications/cancelled`: the server may have cancelled a listen request.
    pub(super) fn on_cancelled(&self, params: &[u8]) {
        let state = lock(&self.state);
        if state.listens.is_empty() {
            return;
        }
        let Some(id) = decode::cancelled_id_number(params) else {
            return;
        };
        if let Some(listen) = state.listens.iter().find(|listen| listen.has_id(id)) {
            listen.is_cancelled.cancel();
        }
    }
}

impl SubscriptionState {
    fn record_update(&self, uri: &str) {
        for uri in uri_and_ancestors(uri) {
            if let Some(subscribed) = self.uris.get(uri) {
                subscribed.record_update();
            }
        }
    }
}

impl SubscribedUri {
    fn is_wanted(&self) -> bool {
        !matches!(self.state.borrow().acceptance, Acceptance::Rejected(_))
    }

    fn record_update(&self) {
        self.state.send_modify(|state| state.updates += 1);
    }
}

impl ListenRequest {
    fn has_id(&self, id: u64) -> bool {
        self.id.load(Ordering::Relaxed) == id
    }
}

/// The subscription task of a session.
async fn run(session: Session) {
    let Some(peer) = session.peer() else { return };
    let stop = peer.stop.clone();
    let is_modern = peer
        .version()
        .is_some_and(|version| version.era() == Era::Modern);
    let run = async {
        if is_modern {
            modern::run(&session, peer).await;
        } else {
            legacy::run(&session, &peer.subscriptions).await;
        }
    };
    stop.run_until_cancelled(run).await;
}

/// A URI and its ancestors, the nearest first.
fn uri_and_ancestors(uri: &str) -> impl Iterator<Item = &str> {
    let is_edge = |(_, c): &(usize, char)| matches!(c, '/' | '?' | '#');
    let edges = uri.char_indices().rev().filter(is_edge).take(MAX_ANCESTORS);
    let above = edges.flat_map(|(at, _)| [uri.get(..=at), uri.get(..at)]);
    let above = above.flatten().filter(move |above| above.len() < uri.len());
    std::iter::once(uri).chain(above)
}

#[cfg(test)]
mod tests {
    use super::uri_and_ancestors;

    #[test]
    fn ancestors_are_prefixes_at_separators() {
        let found: Vec<_> = uri_and_ancestors("x://a/b?c").collect();
        let above = [
            "x://a/b?c",
            "x://a/b?",
            "x://a/b",
            "x://a/",
            "x://a",
            "x://",
            "x:/",
            "x:/",
            "x:",
        ];
        assert_eq!(found, above);
        assert_eq!(uri_and_ancestors(&"/".repeat(100_000)).count(), 64);
    }
}
