//! The resources of a server that somebody wants to hear of, and what the server agreed to tell.
//!
//! One task of the session asks the server for what is wanted: [`legacy`] by a request for each
//! address, [`modern`] by one `subscriptions/listen` for all of them. Whoever wants to hear of a
//! resource has a [`Subscription`]; dropping it takes the wish back.
//!
//! Invariants: however many want to hear of a resource, the server is asked once; however often it
//! says that something was updated, nothing grows with that.

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
use crate::mcp::Era;
use crate::sync::lock;
use crate::wire::decode::{self, SubscriptionNotice};

/// How long a server may take to agree to tell.
const AGREEING: Duration = Duration::from_secs(30);
/// A notice may be about a part of what is watched: so many levels up it is looked for.
const LEVELS: usize = 32;

/// Addresses of resources.
type Uris = BTreeSet<Arc<str>>;

/// What is wanted of one session.
pub(super) struct Subscriptions {
    tasks: TaskTracker,
    wanted: Mutex<Wanted>,
    /// What is wanted has changed.
    changed: Notify,
}

#[derive(Default)]
struct Wanted {
    topics: HashMap<Arc<str>, Topic>,
    /// Whether the server tells of every resource without being asked.
    is_told: bool,
    /// Whether there is a task that asks for it.
    is_served: bool,
    /// Why nothing that the server tells can be heard, if that is so.
    deaf: Option<Arc<str>>,
    /// The open `subscriptions/listen`: one, or two while the second takes over from the first.
    listens: Vec<Arc<Listen>>,
}

/// A resource that somebody wants to hear of.
struct Topic {
    /// How many want to.
    count: usize,
    stand: watch::Sender<Stand>,
}

#[derive(Clone, Default)]
struct Stand {
    /// How many notices there were.
    updates: u64,
    agreement: Acceptance,
}

#[derive(Clone, Default)]
enum Acceptance {
    /// The server has been asked, or will be.
    #[default]
    Open,
    Active,
    /// The server does not tell, or no longer; and why.
    Rejected(Arc<str>),
}

/// One `subscriptions/listen`.
struct Listen {
    /// That of its request; none as long as it was not sent.
    id: AtomicU64,
    uris: Uris,
    is_acknowledged: CancellationToken,
    /// Cancelled when the server took it back.
    is_revoked: CancellationToken,
}

/// Why a server does not tell when a resource changes.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Untold(pub(crate) Arc<str>);

/// What a subscriber receives.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The resource may have changed, once or many times.
    Updated,
    /// Nothing more will be said.
    Over(Untold),
}

/// The wish to hear of one resource, for as long as it is kept.
pub(crate) struct Subscription {
    session: Session,
    uri: Arc<str>,
    stand: watch::Receiver<Stand>,
    heard: u64,
}

impl Session {
    /// Asks to be told when a resource changes. What changes from then on is told.
    pub(crate) async fn subscribe(&self, uri: &str) -> Result<Subscription, Untold> {
        if !self.capabilities().resources_subscribe {
            return Err(Untold("the server has no subscriptions".into()));
        }
        let mut subscription = self.subscriptions().join(self, uri);
        match timeout(AGREEING, subscription.agreed()).await {
            Ok(outcome) => outcome.map(|()| subscription),
            Err(_) => Err(Untold("the server did not answer in time".into())),
        }
    }
}

impl Subscription {
    async fn agreed(&mut self) -> Result<(), Untold> {
        let settled = |stand: &Stand| !matches!(stand.agreement, Acceptance::Open);
        match self.stand.wait_for(settled).await {
            Ok(stand) => match &stand.agreement {
                Acceptance::Rejected(why) => Err(Untold(Arc::clone(why))),
                _ => Ok(()),
            },
            Err(_) => Err(Untold("the session is over".into())),
        }
    }

    /// Takes notices that have come meanwhile, and says whether there were any.
    pub(crate) fn has_more(&mut self) -> bool {
        let updates = self.stand.borrow_and_update().updates;
        std::mem::replace(&mut self.heard, updates) != updates
    }

    /// What the server says next; many notices count as one. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Notice {
        loop {
            let Stand { updates, agreement } = self.stand.borrow_and_update().clone();
            if let Acceptance::Rejected(why) = agreement {
                return Notice::Over(Untold(why));
            }
            if updates != self.heard {
                self.heard = updates;
                return Notice::Updated;
            }
            if self.stand.changed().await.is_err() {
                return Notice::Over(Untold("the session is over".into()));
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.session.subscriptions().leave(&self.uri);
    }
}

impl Subscriptions {
    pub(super) fn new(tasks: &TaskTracker) -> Self {
        Self {
            tasks: tasks.clone(),
            wanted: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Those of a server that tells of every resource without being asked.
    pub(super) fn without_requests(tasks: &TaskTracker) -> Self {
        let subscriptions = Self::new(tasks);
        lock(&subscriptions.wanted).is_told = true;
        subscriptions
    }

    fn join(&self, session: &Session, uri: &str) -> Subscription {
        let mut wanted = lock(&self.wanted);
        let uri: Arc<str> = uri.into();
        let agreement = match &wanted.deaf {
            Some(why) => Acceptance::Rejected(Arc::clone(why)),
            None if wanted.is_told => Acceptance::Active,
            None => Acceptance::Open,
        };
        let topic = wanted.topics.entry(Arc::clone(&uri)).or_insert_with(|| {
            self.changed.notify_one();
            let stand = Stand {
                updates: 0,
                agreement,
            };
            Topic {
                count: 0,
                stand: watch::Sender::new(stand),
            }
        });
        topic.count += 1;
        let stand = topic.stand.subscribe();
        let heard = stand.borrow().updates;
        if !wanted.is_told && !std::mem::replace(&mut wanted.is_served, true) {
            self.tasks.spawn(serve(session.clone()));
        }
        drop(wanted);
        Subscription {
            session: session.clone(),
            uri,
            stand,
            heard,
        }
    }

    fn leave(&self, uri: &str) {
        let mut wanted = lock(&self.wanted);
        let Some(topic) = wanted.topics.get_mut(uri) else {
            return;
        };
        topic.count -= 1;
        if topic.count == 0 {
            wanted.topics.remove(uri);
            self.changed.notify_one();
        }
    }

    /// What the server is to tell of. What it refused once is not asked for again.
    fn uris(&self) -> Uris {
        let wanted = lock(&self.wanted);
        let open = wanted.topics.iter().filter(|(_, topic)| topic.is_wanted());
        open.map(|(uri, _)| Arc::clone(uri)).collect()
    }

    /// Whether the server is to tell of this one.
    fn wants(&self, uri: &str) -> bool {
        let wanted = lock(&self.wanted);
        wanted.topics.get(uri).is_some_and(Topic::is_wanted)
    }

    /// Whether somebody still waits to hear whether the server tells of one of these.
    fn is_open(&self, uris: &Uris) -> bool {
        let wanted = lock(&self.wanted);
        let mut topics = uris.iter().filter_map(|uri| wanted.topics.get(uri));
        topics.any(|topic| matches!(topic.stand.borrow().agreement, Acceptance::Open))
    }

    /// Answers whoever still waits to hear whether the server tells of this resource.
    fn settle_open(&self, uri: &str, agreement: Acceptance) {
        if let Some(topic) = lock(&self.wanted).topics.get(uri) {
            topic.stand.send_if_modified(|stand| {
                let is_open = matches!(stand.agreement, Acceptance::Open);
                if is_open {
                    stand.agreement = agreement;
                }
                is_open
            });
        }
    }

    /// The server tells of this resource from now on, or does not.
    fn settle(&self, uri: &str, agreement: Acceptance) {
        if let Some(topic) = lock(&self.wanted).topics.get(uri) {
            topic.stand.send_modify(|stand| stand.agreement = agreement);
        }
    }

    /// The server no longer tells of these.
    fn give_up<'a>(&self, uris: impl IntoIterator<Item = &'a Arc<str>>, why: &Arc<str>) {
        for uri in uris {
            self.settle(uri, Acceptance::Rejected(Arc::clone(why)));
        }
    }

    /// Nothing that the server tells can be heard: from now on it is not even asked.
    pub(super) fn mark_unavailable(&self, why: Arc<str>) {
        let mut wanted = lock(&self.wanted);
        for topic in wanted.topics.values() {
            let agreement = Acceptance::Rejected(Arc::clone(&why));
            topic.stand.send_modify(|stand| stand.agreement = agreement);
        }
        wanted.deaf = Some(why);
        self.changed.notify_one();
    }

    /// What the server tells can be heard again. Who was told otherwise looks by itself by now.
    pub(super) fn mark_available(&self) {
        lock(&self.wanted).deaf = None;
    }

    /// Nobody knows what changed while nothing was told.
    pub(super) fn record_all(&self) {
        for topic in lock(&self.wanted).topics.values() {
            topic.stand.send_modify(|stand| stand.updates += 1);
        }
    }

    /// Nobody knows what of these changed while nothing was told.
    fn note_some(&self, uris: &Uris) {
        let wanted = lock(&self.wanted);
        for topic in uris.iter().filter_map(|uri| wanted.topics.get(uri)) {
            topic.stand.send_modify(|stand| stand.updates += 1);
        }
    }

    /// The server says that a resource was updated, or a part of one.
    pub(super) fn on_updated(&self, params: &[u8]) {
        if lock(&self.wanted).topics.is_empty() {
            return;
        }
        let Some(SubscriptionNotice { uri, listen, .. }) = decode::subscription_notice(params)
        else {
            return;
        };
        let wanted = lock(&self.wanted);
        let is_ours =
            |id: u64| wanted.listens.is_empty() || wanted.listens.iter().any(|one| one.is(id));
        if !listen.is_none_or(is_ours) {
            return;
        }
        wanted.updated(&uri.unwrap_or_default());
    }

    /// The resource at this address was updated, or a part of one.
    pub(super) fn record_update(&self, uri: &str) {
        lock(&self.wanted).updated(uri);
    }

    /// The server says what of a `subscriptions/listen` it agreed to.
    pub(super) fn on_acknowledged(&self, params: &[u8]) {
        if lock(&self.wanted).listens.is_empty() {
            return;
        }
        let Some(notice) = decode::subscription_notice(params) else {
            return;
        };
        let listen = {
            let wanted = lock(&self.wanted);
            let mut listens = wanted.listens.iter();
            let named = match notice.listen {
                Some(id) => listens.find(|listen| listen.is(id)),
                // Without an id it can only be meant for the one that waits for it.
                None if notice.agreed.is_some() => {
                    listens.find(|listen| !listen.is_acknowledged.is_cancelled())
                }
                None => None,
            };
            named.cloned()
        };
        let Some(listen) = listen else { return };
        let agreed = notice.agreed.unwrap_or_default();
        let agreed: BTreeSet<&str> = agreed.iter().map(String::as_str).collect();
        let why: Arc<str> = "the server does not tell of this resource".into();
        for uri in &listen.uris {
            let agreement = if agreed.contains(&**uri) {
                Acceptance::Active
            } else {
                Acceptance::Rejected(Arc::clone(&why))
            };
            self.settle(uri, agreement);
        }
        listen.is_acknowledged.cancel();
    }

    /// The server no longer answers a request of ours, if it was one of these.
    pub(super) fn on_cancelled(&self, params: &[u8]) {
        let wanted = lock(&self.wanted);
        if wanted.listens.is_empty() {
            return;
        }
        let Some(id) = decode::cancelled_number(params) else {
            return;
        };
        if let Some(listen) = wanted.listens.iter().find(|listen| listen.is(id)) {
            listen.is_revoked.cancel();
        }
    }
}

impl Wanted {
    fn updated(&self, uri: &str) {
        for uri in itself_and_above(uri) {
            if let Some(topic) = self.topics.get(uri) {
                topic.stand.send_modify(|stand| stand.updates += 1);
            }
        }
    }
}

impl Topic {
    fn is_wanted(&self) -> bool {
        !matches!(self.stand.borrow().agreement, Acceptance::Rejected(_))
    }
}

impl Listen {
    fn is(&self, id: u64) -> bool {
        self.id.load(Ordering::Relaxed) == id
    }
}

/// Asks for what is wanted, until the session is over.
async fn serve(session: Session) {
    let Some(peer) = session.peer() else { return };
    let stop = peer.stop.clone();
    let is_modern = peer
        .version()
        .is_some_and(|version| version.era() == Era::Modern);
    let serving = async {
        if is_modern {
            modern::serve(&session, peer).await;
        } else {
            legacy::serve(&session, &peer.subscriptions).await;
        }
    };
    stop.run_until_cancelled(serving).await;
}

/// An address, and those of what it may be a part of, from the nearest on.
fn itself_and_above(uri: &str) -> impl Iterator<Item = &str> {
    let is_edge = |(_, c): &(usize, char)| matches!(c, '/' | '?' | '#');
    let edges = uri.char_indices().rev().filter(is_edge).take(LEVELS);
    let above = edges.flat_map(|(at, _)| [uri.get(..=at), uri.get(..at)]);
    let above = above.flatten().filter(move |above| above.len() < uri.len());
    std::iter::once(uri).chain(above)
}

#[cfg(test)]
mod tests {
    use super::itself_and_above;

    #[test]
    fn a_notice_of_a_part_is_one_of_the_whole() {
        let found: Vec<_> = itself_and_above("x://a/b?c").collect();
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
        assert_eq!(itself_and_above(&"/".repeat(100_000)).count(), 64);
    }
}
