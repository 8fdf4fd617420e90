//! What a server has besides tools: listed when somebody asks, and kept for as long as it is good.
//!
//! Invariant: what is kept came from the session that is open now, and the server has announced no
//! change since it was asked for; where it says nothing of time, it would have been heard all the while.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::paging;
use crate::event::{Event, EventSink};
use crate::id::ServerName;
use crate::limits::Limits;
use crate::mcp::{Prompt, Resource, ResourceTemplate};
use crate::session::list_changes::ListChangeKind;
use crate::session::list_kind::ListItem;
use crate::session::{RequestError, Session, SessionKey};
use crate::sync::lock;

/// The listings of one server that are made on demand.
#[derive(Debug, Default)]
pub(crate) struct Offerings {
    pub(crate) resources: Shelf<Resource>,
    pub(crate) templates: Shelf<ResourceTemplate>,
    pub(crate) prompts: Shelf<Prompt>,
}

/// A listing that may be kept.
#[derive(Debug)]
pub(crate) struct Shelf<T>(Mutex<Option<Kept<T>>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[derive(Debug)]
struct Kept<T> {
    session: SessionKey,
    /// How many changes the server had announced when it was asked.
    notices: u64,
    /// Good until the server says otherwise, where it says nothing of time.
    until: Option<Instant>,
    items: Items<T>,
}

/// What was listed. Many may hold it.
pub(crate) type Items<T> = Arc<Vec<Arc<T>>>;

impl<T: ListItem> Shelf<T> {
    /// What the server lists, asked for only if what is kept is not good any more.
    pub(crate) async fn list(
        &self,
        session: &Session,
        limits: &Limits,
        page_limit: Duration,
        end: Instant,
    ) -> Result<Items<T>, RequestError> {
        if let Some(items) = self.kept(session) {
            return Ok(items);
        }
        // All before it is asked for: a change that is announced meanwhile, or not heard, may or may not
        // be in the answer.
        let is_announced =
            T::is_announced(&session.capabilities()) && session.receives_changes(T::CHANGE_KIND);
        let notices = session.change_count(T::CHANGE_KIND);
        let listing = paging::list::<T>(session, limits, page_limit, end).await?;
        for note in &listing.notes {
            tracing::warn!(note, "listing");
        }
        let ttl = listing.ttl();
        let items: Items<T> = Arc::new(listing.items.into_iter().map(Arc::new).collect());
        let until = (!ttl.is_zero()).then(|| Instant::now() + ttl);
        let kept = (is_announced || until.is_some()).then(|| Kept {
            session: session.key(),
            notices,
            until,
            items: Arc::clone(&items),
        });
        *lock(&self.0) = kept;
        Ok(items)
    }

    fn kept(&self, session: &Session) -> Option<Items<T>> {
        let shelf = lock(&self.0);
        let kept = shelf.as_ref()?;
        let is_in_time = match kept.until {
            Some(until) => Instant::now() < until,
            None => session.receives_changes(T::CHANGE_KIND),
        };
        // The notices last: whoever is heard again has noted before that something may be missing.
        let is_good = kept.session == session.key()
            && is_in_time
            && kept.notices == session.change_count(T::CHANGE_KIND);
        is_good.then(|| Arc::clone(&kept.items))
    }
}

/// Tells of announced changes, at a bounded rate.
pub(super) struct Announcing {
    not_before: Instant,
}

impl Announcing {
    /// However often a server announces changes, they are told no more often than this.
    const BREATHER: Duration = Duration::from_millis(100);

    pub(super) fn new() -> Self {
        Self {
            not_before: Instant::now(),
        }
    }

    /// The next change. May be dropped and asked again at any time.
    pub(super) async fn next(&self, session: &Session) -> ListChangeKind {
        tokio::time::sleep_until(self.not_before).await;
        tokio::select! {
            biased;
            () = session.list_changed(ListChangeKind::Resources) => ListChangeKind::Resources,
            () = session.list_changed(ListChangeKind::Prompts) => ListChangeKind::Prompts,
        }
    }

    pub(super) fn tell(&mut self, kind: ListChangeKind, server: &ServerName, events: &EventSink) {
        self.not_before = Instant::now() + Self::BREATHER;
        events.send(|| {
            let server = server.clone();
            match kind {
                ListChangeKind::Prompts => Event::PromptsChanged { server },
                _ => Event::ResourcesChanged { server },
            }
        });
    }
}
