//! Resource subscriptions of one session.
//!
//! A caller holds a [`Subscription`] per resource and drops it to unsubscribe. One task per session
//! sends the requests that subscribe and unsubscribe: in the legacy era one request per URI
//! (`legacy`), in the modern era one `subscriptions/listen` for all URIs (`modern`).
//! `notifications` reports updates to the callers.
//!
//! Invariants: several subscriptions to the same URI cause one request; several updates of a
//! resource are reported to a caller as one, until the caller takes the report.

mod legacy;
mod modern;
mod notifications;

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
use switchboard_wire::mcp::Era;
use switchboard_wire::sync::lock;

/// How long [`Session::subscribe`] waits until the server accepts or rejects the subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(30);

type Uris = BTreeSet<Arc<str>>;

/// The subscriptions of all callers of one session.
pub(super) struct Subscriptions {
    tasks: TaskTracker,
    state: Mutex<SubscriptionState>,
    /// Wakes the subscription task after a URI was added or removed.
    changed: Notify,
}

#[derive(Default)]
struct SubscriptionState {
    uris: HashMap<Arc<str>, SubscribedUri>,
    /// Whether the server sends updates of every resource without being asked, as an in-process
    /// server does.
    needs_no_request: bool,
    /// Whether the subscription task was spawned. The first subscription spawns it.
    task_running: bool,
    /// Why update notifications cannot arrive. `None` if they can arrive.
    unavailable: Option<Arc<str>>,
    /// The open `subscriptions/listen` requests: one, or two while the second replaces the first.
    listens: Vec<Arc<ListenRequest>>,
}

/// The state of a URI that has at least one [`Subscription`].
struct SubscribedUri {
    /// Number of [`Subscription`] values with this URI.
    count: usize,
    state: watch::Sender<UriState>,
}

#[derive(Clone, Default)]
struct UriState {
    /// Number of updates since the URI was added. A gap in the notifications counts as an update.
    updates: u64,
    acceptance: Acceptance,
}

#[derive(Clone, Default)]
enum Acceptance {
    /// The subscribe request is in flight, or will be sent.
    #[default]
    Pending,
    Active,
    /// The server does not send updates, or no longer sends them. Holds the reason.
    Rejected(Arc<str>),
}

/// The state of one `subscriptions/listen` request for resource updates.
struct ListenRequest {
    /// Id of the request. Zero until the request is sent.
    id: AtomicU64,
    uris: Uris,
    is_acknowledged: CancellationToken,
    /// Cancelled when `notifications/cancelled` for this request arrives from the server.
    is_cancelled: CancellationToken,
}

/// Why a server sends no updates of a resource, as a message for the user.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotSubscribed(pub Arc<str>);

#[derive(Debug)]
pub enum SubscriptionEvent {
    /// The resource changed at least once since the previous event.
    Updated,
    /// No more updates of the resource will arrive.
    Ended(NotSubscribed),
}

/// A caller's subscription to one resource. Dropping it unsubscribes.
pub struct Subscription {
    session: Session,
    uri: Arc<str>,
    state: watch::Receiver<UriState>,
    /// The value of [`UriState::updates`] when an update was last reported to the caller.
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
    /// Subscribes to updates of a resource. Waits until the server accepts the subscription, at
    /// most `SUBSCRIBE_TIMEOUT`.
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

    /// Whether there were updates that neither this function nor [`next`](Self::next) has reported
    /// yet.
    pub fn take_pending(&mut self) -> bool {
        let updates = self.state.borrow_and_update().updates;
        std::mem::replace(&mut self.seen_updates, updates) != updates
    }

    /// Waits for the next event. Several updates since the previous event are reported as one.
    /// Cancel safe.
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

    /// Creates the subscriptions for a server that sends updates of every resource without being
    /// asked. No subscription task is spawned.
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

    /// The URIs that have a subscription and were not rejected. Rejected URIs are not requested
    /// again.
    fn wanted_uris(&self) -> Uris {
        let state = lock(&self.state);
        let wanted = state.uris.iter().filter(|(_, uri)| uri.is_wanted());
        wanted.map(|(uri, _)| Arc::clone(uri)).collect()
    }

    /// Whether this URI has a subscription and was not rejected.
    fn wants(&self, uri: &str) -> bool {
        let state = lock(&self.state);
        state.uris.get(uri).is_some_and(SubscribedUri::is_wanted)
    }

    /// Whether at least one of these URIs is [`Acceptance::Pending`].
    fn any_pending(&self, uris: &Uris) -> bool {
        let state = lock(&self.state);
        let mut subscribed = uris.iter().filter_map(|uri| state.uris.get(uri));
        subscribed.any(|uri| matches!(uri.state.borrow().acceptance, Acceptance::Pending))
    }

    /// Sets the acceptance of a URI if it is [`Acceptance::Pending`]. Does nothing otherwise.
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

    /// Rejects all present subscriptions, and future ones until
    /// [`mark_available`](Self::mark_available): notifications cannot arrive.
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

    /// Allows new subscriptions again. Subscriptions that were rejected stay rejected, because
    /// their callers poll the resource instead.
    pub(super) fn mark_available(&self) {
        lock(&self.state).unavailable = None;
    }

    /// Reports an update of every subscribed URI, because notifications may have been missed.
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

    /// Reports an update of the resource with this URI, and of every resource of which it is a
    /// part.
    pub(super) fn record_update(&self, uri: &str) {
        lock(&self.state).record_update(uri);
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

/// The subscription task of a session. Runs until the session ends.
async fn run(session: Session) {
    let Some(peer) = session.peer() else { return };
    let stop = peer.stop.clone();
    let run = async {
        if peer.era() == Some(Era::Modern) {
            modern::run(&session, peer).await;
        } else {
            legacy::run(&session, &peer.subscriptions).await;
        }
    };
    stop.run_until_cancelled(run).await;
}
