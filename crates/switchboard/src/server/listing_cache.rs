//! Caches the listings of resources, resource templates and prompts of one server.
//!
//! Requests a listing from the server only when a query needs it. Tools are not cached here: the
//! owner lists the tools and the catalog holds them.
//!
//! Invariant: a cached listing is used only if it came from the open session and the server has
//! announced no change since the listing was requested. A listing without a lifetime is used only
//! while the host can receive `list_changed` notifications.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_client::session::list_kind::ListItem;
use switchboard_client::session::pagination::{self, ListingTime};
use switchboard_client::session::{RequestError, Session, SessionKey};
use switchboard_wire::mcp::{Prompt, Resource, ResourceTemplate};
use switchboard_wire::sync::lock;
use tokio::time::Instant;

use crate::limits::Limits;

/// The cached listings of one server.
#[derive(Debug, Default)]
pub(crate) struct ListingCaches {
    pub(crate) resources: ListingCache<Resource>,
    pub(crate) templates: ListingCache<ResourceTemplate>,
    pub(crate) prompts: ListingCache<Prompt>,
}

#[derive(Debug)]
pub(crate) struct ListingCache<T>(Mutex<Option<CachedListing<T>>>);

impl<T> Default for ListingCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[derive(Debug)]
struct CachedListing<T> {
    session: SessionKey,
    /// The [`Session::change_count`] before the listing was requested.
    change_count: u64,
    /// The end of the lifetime that the server declared. `None`: valid until the server announces a
    /// change.
    expires_at: Option<Instant>,
    items: SharedItems<T>,
}

/// A listing, shared between the cache and its readers.
pub(crate) type SharedItems<T> = Arc<ListedItems<T>>;

/// The items of a listing.
#[derive(Debug)]
pub(crate) struct ListedItems<T> {
    pub(crate) items: Vec<Arc<T>>,
    /// Which items are missing and why.
    pub(crate) notes: Vec<String>,
}

impl<T> Default for ListedItems<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl<T: ListItem> ListingCache<T> {
    /// Returns the cached listing if it is valid. Otherwise requests the listing from the server.
    pub(crate) async fn list(
        &self,
        session: &Session,
        limits: &Limits,
        page_timeout: Duration,
        end: Instant,
    ) -> Result<SharedItems<T>, RequestError> {
        if let Some(items) = self.cached_items(session) {
            return Ok(items);
        }
        // Read `is_announced` and `change_count` before the request. A change that is announced
        // while the request is in flight may be missing from the response, and must invalidate the
        // cached listing.
        let is_announced =
            T::is_announced(&session.capabilities()) && session.receives_changes(T::CHANGE_KIND);
        let change_count = session.change_count(T::CHANGE_KIND);
        let time = ListingTime {
            page: page_timeout,
            until: end,
            limit: page_timeout,
        };
        let listing = pagination::list::<T>(session, limits, time).await?;
        for note in &listing.notes {
            tracing::warn!(note, "listing");
        }
        let ttl = listing.ttl();
        let items = Arc::new(ListedItems {
            items: listing.items.into_iter().map(Arc::new).collect(),
            notes: listing.notes,
        });
        let expires_at = (!ttl.is_zero()).then(|| Instant::now() + ttl);
        let is_cacheable = is_announced || expires_at.is_some();
        *lock(&self.0) = is_cacheable.then(|| CachedListing {
            session: session.key(),
            change_count,
            expires_at,
            items: Arc::clone(&items),
        });
        Ok(items)
    }

    /// Returns the cached items if they are still valid for this session.
    fn cached_items(&self, session: &Session) -> Option<SharedItems<T>> {
        let cache = lock(&self.0);
        let cached = cache.as_ref()?;
        let is_fresh = match cached.expires_at {
            Some(expires_at) => Instant::now() < expires_at,
            None => session.receives_changes(T::CHANGE_KIND),
        };
        // Read the change count last: a reopened notification stream increments the change count
        // before it sets the flag that `receives_changes` reads.
        let is_valid = cached.session == session.key()
            && is_fresh
            && cached.change_count == session.change_count(T::CHANGE_KIND);
        is_valid.then(|| Arc::clone(&cached.items))
    }
}
