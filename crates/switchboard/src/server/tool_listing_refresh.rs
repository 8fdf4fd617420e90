//! Decides when the tools of an open session are listed again.
//!
//! There are four causes: the server announced a change, an expired listing was used, an order
//! requested a refresh, or the last listing failed. Listings after announced changes are
//! rate-limited. Failed listings are retried with a growing delay. An expired listing is not
//! refreshed until it is used. Invariant: at most one listing is in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_client::session::list_changes::ListChangeKind;
use switchboard_client::session::pagination;
use switchboard_client::session::pagination::{Listing, ListingTime};
use switchboard_client::session::{RequestError, Session};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::ToolDefinition;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::connect::ConnectSetup;
use super::owner::RefreshReply;

/// Lists all tools of a session, or fails at `end`.
pub(super) fn list_tools(
    setup: &ConnectSetup,
    session: &Session,
    end: Instant,
) -> impl Future<Output = Result<Listing<ToolDefinition>, RequestError>> + Send + use<> {
    let (session, limits) = (session.clone(), Arc::clone(&setup.client.session.limits));
    let time = ListingTime {
        page: setup.client.deadlines.list,
        until: end,
        limit: setup.client.deadlines.startup,
    };
    async move { pagination::list(&session, &limits, time).await }
}

/// The expiry time of the last tool listing. The owner sets the time, and the handle checks it
/// whenever the tools are used.
#[derive(Debug)]
pub(crate) struct ListingExpiry {
    epoch: Instant,
    /// Milliseconds from `epoch` to the expiry, or [`Self::NEVER`].
    expires_at: AtomicU64,
    refresh_requested: Notify,
}

impl ListingExpiry {
    const NEVER: u64 = u64::MAX;
    /// The shortest lifetime of a listing. A shorter lifetime that a server declares is raised to
    /// this one.
    const MIN_LIFETIME: Duration = Duration::from_secs(1);

    pub(super) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            expires_at: AtomicU64::new(Self::NEVER),
            refresh_requested: Notify::new(),
        }
    }

    /// Starts the lifetime of a new listing. A `ttl` of zero means that the listing never expires.
    pub(super) fn restart(&self, ttl: Duration) {
        let expires_at = if ttl.is_zero() {
            Self::NEVER
        } else {
            self.now()
                .saturating_add(as_millis(ttl.max(Self::MIN_LIFETIME)))
        };
        self.expires_at.store(expires_at, Ordering::Relaxed);
    }

    /// Requests a refresh if the listing has expired, at most once per listing.
    pub(crate) fn refresh_if_expired(&self) {
        let expires_at = self.expires_at.load(Ordering::Relaxed);
        if expires_at != Self::NEVER
            && self.now() >= expires_at
            && self.expires_at.swap(Self::NEVER, Ordering::Relaxed) != Self::NEVER
        {
            self.refresh_requested.notify_one();
        }
    }

    fn now(&self) -> u64 {
        as_millis(self.epoch.elapsed())
    }
}

fn as_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Schedules and runs the tool listings of one session. [`super::owner`] runs the first listing of
/// a session itself.
pub(super) struct ListingRefresh {
    /// When the next listing starts. `None` until there is a cause for it.
    due: Option<Instant>,
    in_flight: Option<BoxFuture<'static, Result<Listing<ToolDefinition>, RequestError>>>,
    /// The delay after the next listing that fails.
    retry_delay: Duration,
    /// Refresh orders to answer after the next listing.
    waiting_orders: Vec<oneshot::Sender<RefreshReply>>,
    /// Refresh orders to answer after the listing in flight.
    in_flight_orders: Vec<oneshot::Sender<RefreshReply>>,
}

impl ListingRefresh {
    /// The delay between an announced change and the listing. Limits the rate of listings if a
    /// server announces many changes.
    const CHANGE_DELAY: Duration = Duration::from_millis(100);
    const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
    const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

    /// Creates the schedule of a session. If the first listing of the session failed
    /// (`first_failed`), it is retried.
    pub(super) fn new(first_failed: bool) -> Self {
        let due = first_failed.then(|| Instant::now() + Self::MIN_RETRY_DELAY);
        Self {
            due,
            in_flight: None,
            retry_delay: Self::MIN_RETRY_DELAY,
            waiting_orders: Vec::new(),
            in_flight_orders: Vec::new(),
        }
    }

    /// Orders a listing. If a listing is already in flight, a second listing follows it, because
    /// the first may lack recent changes.
    pub(super) fn order(&mut self, reply: oneshot::Sender<RefreshReply>) {
        self.waiting_orders.push(reply);
    }

    /// Answers the orders that waited for the listing that just ended.
    pub(super) fn answer_orders(&mut self, outcome: &Result<(), RequestError>) {
        for reply in self.in_flight_orders.drain(..) {
            let _ = reply.send(Some(outcome.clone()));
        }
    }

    /// Waits for the outcome of the next listing. Cancel-safe: a listing in flight continues with
    /// the next call.
    pub(super) async fn next(
        &mut self,
        setup: &ConnectSetup,
        session: &Session,
        expiry: &ListingExpiry,
    ) -> Result<Listing<ToolDefinition>, RequestError> {
        let outcome = loop {
            if let Some(in_flight) = &mut self.in_flight {
                break in_flight.await;
            }
            if !self.waiting_orders.is_empty() {
                self.due = Some(Instant::now());
            }
            match self.due {
                Some(due) => {
                    tokio::time::sleep_until(due).await;
                    self.due = None;
                    self.in_flight_orders.append(&mut self.waiting_orders);
                    let end = Instant::now() + setup.client.deadlines.startup;
                    self.in_flight = Some(Box::pin(list_tools(setup, session, end)));
                }
                None => {
                    let delay = tokio::select! {
                        biased;
                        () = session.list_changed(ListChangeKind::Tools) => Self::CHANGE_DELAY,
                        () = expiry.refresh_requested.notified() => Duration::ZERO,
                    };
                    self.due = Some(Instant::now() + delay);
                }
            }
        };
        self.in_flight = None;
        if outcome.is_ok() {
            self.retry_delay = Self::MIN_RETRY_DELAY;
        } else {
            self.due = Some(Instant::now() + self.retry_delay);
            self.retry_delay = (self.retry_delay * 2).min(Self::MAX_RETRY_DELAY);
        }
        outcome
    }
}
