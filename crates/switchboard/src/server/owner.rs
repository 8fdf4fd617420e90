//! The task that owns one server: its session, its process, its backoff.
//!
//! Orders arrive on a bounded channel, the state is published on a `watch`. Calls do not pass through
//! this task: they use the session in the published state. Invariant: the catalog has the tools of a
//! session before the session is published as ready.

mod orders;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use switchboard_client::auth::LoginRequired;
use switchboard_client::connect::LiveSession;
use switchboard_client::session::list_changes::ListChangeKind;
use switchboard_client::session::pagination::Listing;
use switchboard_client::session::{RequestError, SessionEnd};
use switchboard_wire::mcp::Tool;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::ServerHandle;
use super::backoff::{Backoff, ConnectionFailure, FailureKind, GiveUpReason, RetryDecision};
use super::change_events::ChangeEvents;
use super::connect::{ConnectError, ConnectSetup};
use super::listing_refresh::{ListingExpiry, ListingRefresh, list_tools};
use super::state::{FailureReason, Phase, State};
use crate::catalog::{CatalogPublisher, ServerKey};
use crate::event::{Event, EventSink};
use crate::status::{ConnectAttempt, ConnectStage};
use orders::{Activity, OrderOutcome};
pub(crate) use orders::{Control, RefreshReply};

/// Minimum interval between immediate reconnects after an expired session.
const MIN_IMMEDIATE_RECONNECT_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Owner {
    pub(super) key: ServerKey,
    pub(super) site: Arc<ConnectSetup>,
    pub(super) orders: mpsc::Receiver<Control>,
    pub(super) state: watch::Sender<State>,
    pub(super) catalog: Arc<CatalogPublisher>,
    pub(super) events: EventSink,
    pub(super) listing_expiry: Arc<ListingExpiry>,
    pub(super) backoff: Backoff,
    /// Failed attempts since the last success. The status shows this number.
    pub(super) attempts: u32,
    /// The server that this one replaces, until it has stopped.
    pub(super) replaces: Option<Arc<ServerHandle>>,
    /// When an expired session was last replaced without a delay.
    pub(super) last_immediate_reconnect: Option<Instant>,
}

/// What the owner does next.
enum Step {
    WaitForOrder,
    Connect,
    Serve(Box<LiveSession>),
    RetryAt(Instant),
    End,
}

/// What woke the owner while a session is open.
enum Wake {
    /// `None`: the server is to be stopped.
    Order(Option<Control>),
    SessionEnded,
    ToolsListed(Result<Listing<Tool>, RequestError>),
    ListChanged(ListChangeKind),
}

impl Owner {
    /// Runs until the server is stopped. A panic fails this server only.
    pub(super) async fn run(self) {
        let (key, state, catalog) = (
            self.key.clone(),
            self.state.clone(),
            Arc::clone(&self.catalog),
        );
        if AssertUnwindSafe(self.run_steps())
            .catch_unwind()
            .await
            .is_err()
        {
            catalog.clear_tools(&key);
            state.send_modify(|state| {
                state.session = None;
                state.phase = Phase::Failed(FailureReason {
                    error: "internal error: the task of the server panicked".to_owned(),
                    hint: None,
                });
            });
        }
    }

    async fn run_steps(mut self) {
        if let Some(replaced) = self.replaces.take() {
            // Both may need the same port or lock file.
            let stopped = replaced.stopped();
            self.site.stop.run_until_cancelled(stopped).await;
        }
        let mut step = match self.state.borrow().phase {
            Phase::Starting => Step::Connect,
            _ => Step::WaitForOrder,
        };
        loop {
            step = match step {
                Step::WaitForOrder => self.wait_for_order().await,
                Step::Connect => self.connect().await,
                Step::Serve(live) => self.serve(*live).await,
                Step::RetryAt(at) => self.wait_for_retry(at).await,
                Step::End => break,
            };
        }
        self.catalog.remove(&self.key);
        // Sends no event: the caller that stopped the server knows.
        self.state.send_modify(|state| {
            state.phase = Phase::Stopped;
            state.session = None;
        });
    }

    /// Changes the published state. Sends an event if status, phase or error changed. The countdown
    /// to the next attempt does not count: it changes all the time.
    fn publish(&self, change: impl FnOnce(&mut State)) {
        let visible = |state: &State| (state.status(), state.phase.public(), state.error());
        let mut changed = None;
        self.state.send_modify(|state| {
            let before = visible(state);
            change(state);
            if before != visible(state) {
                changed = Some((state.status(), state.error().or_else(|| state.detail())));
            }
        });
        if let Some((status, detail)) = changed {
            let reason = detail.as_deref().map(|detail| format!(": {detail}"));
            tracing::info!(
                "server {} is {status}{}",
                self.key.server,
                reason.unwrap_or_default()
            );
            let server = self.key.server.clone();
            self.events.send(|| Event::ServerChanged {
                server,
                status,
                detail,
            });
        }
    }

    async fn wait_for_order(&mut self) -> Step {
        while let Some(order) = self.next_order().await {
            if let Some(step) = self.obey(order, Activity::Idle) {
                return step;
            }
        }
        Step::End
    }

    /// The next order, or `None` if the server is to be stopped. Cancel-safe.
    async fn next_order(&mut self) -> Option<Control> {
        tokio::select! {
            biased;
            () = self.site.stop.cancelled() => None,
            order = self.orders.recv() => order,
        }
    }

    /// Carries out an order while no session is open. Returns the next step if the order changes it.
    fn obey(&mut self, order: Control, activity: Activity) -> Option<Step> {
        match self.handle_order(order, activity) {
            OrderOutcome::Done | OrderOutcome::RefreshTools(_) => None,
            OrderOutcome::Connect(done) => {
                let _ = done.send(());
                Some(Step::Connect)
            }
        }
    }

    async fn connect(&mut self) -> Step {
        self.publish(|state| state.phase = Phase::Starting);
        let started = Instant::now();
        let site = Arc::clone(&self.site);
        // Boxed to keep the owner's future small: most of the time there is no attempt.
        let mut attempt = Box::pin(connect_and_list(&site));
        let outcome = loop {
            tokio::select! {
                biased;
                order = self.next_order() => {
                    let Some(order) = order else {
                        return Step::End;
                    };
                    if let Some(step) = self.obey(order, Activity::Connecting) {
                        return step;
                    }
                }
                outcome = &mut attempt => break outcome,
            }
        };
        match outcome {
            Ok((live, listing)) => self.on_connected(live, listing, started),
            Err(error) => self.on_connect_error(&error),
        }
    }

    fn on_connected(
        &mut self,
        live: LiveSession,
        listing: Result<Listing<Tool>, RequestError>,
        started: Instant,
    ) -> Step {
        let error = match listing {
            Ok(listing) => {
                self.backoff.record_success();
                self.attempts = 0;
                self.publish_listing(listing);
                None
            }
            Err(error) => {
                self.catalog.set_available(&self.key, true);
                Some(listing_failed(&error))
            }
        };
        let connect_time = started.elapsed();
        let mut attempt = live.attempt.clone();
        attempt.failed_at = error.as_ref().map(|_| ConnectStage::Listing);
        self.publish(|state| {
            state.phase = Phase::Ready;
            state.generation = state.generation.next();
            state.session = Some(live.session.clone());
            state.hello = live.session.handshake().cloned().map(Arc::new);
            state.error = error;
            state.connect_time = Some(connect_time);
            state.attempt = Some(attempt);
            state.stderr.clone_from(&live.stderr);
        });
        Step::Serve(Box::new(live))
    }

    /// Puts the tools into the catalog and into the server cache.
    fn publish_listing(&self, listing: Listing<Tool>) {
        for note in &listing.notes {
            let (server, note) = (self.key.server.clone(), note.clone());
            self.events.send(|| Event::ListingNoted { server, note });
        }
        self.listing_expiry.restart(listing.ttl());
        if let Some(key) = &self.site.cache_key {
            self.site.server_cache.remember_tools(key, &listing.items);
        }
        self.state
            .send_modify(|state| state.notes = Arc::new(listing.notes));
        self.catalog.set_tools(&self.key, listing.items, true);
    }

    fn on_connect_error(&mut self, error: &ConnectError) -> Step {
        let kind = if error.is_permanent() {
            FailureKind::Permanent
        } else if error.is_crash() && self.site.endpoint.is_child() {
            FailureKind::Crash
        } else {
            FailureKind::Unreachable
        };
        self.schedule_retry(kind, error)
    }

    /// Schedules the next attempt, or gives up.
    fn schedule_retry(&mut self, kind: FailureKind, error: &ConnectError) -> Step {
        self.attempts += 1;
        let attempt = self.attempts;
        let stage = error.stage();
        self.state
            .send_modify(|state| state.attempt = Some(ConnectAttempt::failed_at(stage)));
        if let Some(login) = error.login() {
            return self.wait_for_login(Box::new(login.clone()));
        }
        let failure = ConnectionFailure {
            retry_after: error.retry_after(),
            ..ConnectionFailure::new(kind)
        };
        let now = Instant::now();
        match self.backoff.after_failure(failure, now, fastrand::f64()) {
            RetryDecision::RetryIn(delay) => {
                let at = self.site.retry_slots.reserve(now + delay, now);
                self.catalog.set_available(&self.key, false);
                self.publish(|state| {
                    state.phase = Phase::Retrying { attempt, at };
                    state.session = None;
                    state.error = Some(error.to_string());
                });
                Step::RetryAt(at)
            }
            RetryDecision::GiveUp(reason) => {
                let error_text = match reason {
                    GiveUpReason::Permanent | GiveUpReason::Attempts { max: 0 } => {
                        error.to_string()
                    }
                    reason => format!("{reason}: {error}"),
                };
                self.give_up(Phase::Failed(FailureReason {
                    error: error_text,
                    hint: error.hint(),
                }))
            }
        }
    }

    /// A retry would fail again until the user has logged in.
    fn wait_for_login(&self, login: Box<LoginRequired>) -> Step {
        self.give_up(Phase::NeedsAuth(login))
    }

    fn give_up(&self, phase: Phase) -> Step {
        self.catalog.clear_tools(&self.key);
        self.publish(|state| {
            state.phase = phase;
            state.session = None;
        });
        Step::WaitForOrder
    }

    async fn wait_for_retry(&mut self, mut at: Instant) -> Step {
        let mut resumed = self.site.client.health.resumed.clone();
        resumed.mark_unchanged();
        let is_remote = self.site.endpoint.is_remote();
        loop {
            tokio::select! {
                biased;
                order = self.next_order() => {
                    let Some(order) = order else {
                        return Step::End;
                    };
                    if let Some(step) = self.obey(order, Activity::Retrying) {
                        return step;
                    }
                }
                () = tokio::time::sleep_until(at) => return Step::Connect,
                // After a suspend the machine may be in another network: do not wait any longer.
                Ok(()) = resumed.changed(), if is_remote => {
                    let now = Instant::now();
                    at = self.site.retry_slots.reserve(now, now);
                }
            }
        }
    }

    async fn serve(&mut self, mut live: LiveSession) -> Step {
        let mut refresh = ListingRefresh::new(self.state.borrow().error.is_some());
        let mut change_events = ChangeEvents::new();
        let site = Arc::clone(&self.site);
        let expiry = Arc::clone(&self.listing_expiry);
        loop {
            let session = live.session.clone();
            let wake = tokio::select! {
                biased;
                order = self.next_order() => Wake::Order(order),
                () = live.ended() => Wake::SessionEnded,
                outcome = refresh.next(&site, &session, &expiry) => Wake::ToolsListed(outcome),
                kind = change_events.next(&session) => Wake::ListChanged(kind),
            };
            match wake {
                Wake::Order(None) => {
                    // Sends no event: the caller that stopped the server knows.
                    self.state.send_modify(|state| state.phase = Phase::Lost);
                    self.close(live).await;
                    return Step::End;
                }
                Wake::Order(Some(order)) => match self.handle_order(order, Activity::Serving) {
                    OrderOutcome::Done => {}
                    OrderOutcome::RefreshTools(done) => refresh.order(done),
                    OrderOutcome::Connect(done) => {
                        self.close(live).await;
                        let _ = done.send(());
                        return Step::Connect;
                    }
                },
                Wake::SessionEnded => return self.on_session_end(live).await,
                Wake::ListChanged(kind) => {
                    change_events.send(kind, &self.key.server, &self.events);
                }
                Wake::ToolsListed(outcome) => {
                    let outcome = self.on_tools_listed(outcome);
                    refresh.answer_orders(&outcome);
                }
            }
        }
    }

    /// Publishes the outcome of a listing after the first.
    fn on_tools_listed(
        &mut self,
        outcome: Result<Listing<Tool>, RequestError>,
    ) -> Result<(), RequestError> {
        match outcome {
            Ok(listing) => {
                self.backoff.record_success();
                self.publish_listing(listing);
                self.publish(|state| state.error = None);
                Ok(())
            }
            Err(error) => {
                self.publish(|state| state.error = Some(listing_failed(&error)));
                Err(error)
            }
        }
    }

    /// Determines why the session ended by itself, and decides when to reconnect.
    async fn on_session_end(&mut self, mut live: LiveSession) -> Step {
        self.catalog.set_available(&self.key, false);
        self.publish(|state| {
            state.phase = Phase::Lost;
            state.session = None;
            state.error = None;
        });
        let had_child = live.has_child();
        let end = live.session.ended().await;
        if end == SessionEnd::Expired && self.may_reconnect_now() {
            live.shut_down().await;
            return Step::Connect;
        }
        if matches!(end, SessionEnd::TooManyFailures(_)) {
            self.backoff.record_session_failure(live.age());
        }
        let error = self.site.session_failure(&mut live).await;
        self.publish(|state| state.error = Some(error.to_string()));
        live.shut_down().await;
        let kind = if had_child {
            FailureKind::Crash
        } else {
            FailureKind::Unreachable
        };
        self.schedule_retry(kind, &error)
    }

    /// Whether an expired session is replaced without a delay. A server that expires session after
    /// session is retried with the usual delays.
    fn may_reconnect_now(&mut self) -> bool {
        let now = Instant::now();
        let is_allowed = self
            .last_immediate_reconnect
            .is_none_or(|last| now - last >= MIN_IMMEDIATE_RECONNECT_INTERVAL);
        if is_allowed {
            self.last_immediate_reconnect = Some(now);
        }
        is_allowed
    }

    /// Removes the session from the published state, then closes it.
    async fn close(&self, live: LiveSession) {
        self.publish(|state| state.session = None);
        live.shut_down().await;
    }
}

fn listing_failed(error: &RequestError) -> String {
    format!("listing the tools failed: {error}")
}

/// Opens a session and lists its tools. A listing that fails does not fail the session, unless the
/// session ended.
async fn connect_and_list(
    site: &ConnectSetup,
) -> Result<(LiveSession, Result<Listing<Tool>, RequestError>), ConnectError> {
    let end = Instant::now() + site.client.deadlines.startup;
    let mut live = site.connect(end).await?;
    let started = Instant::now();
    let listing = list_tools(site, &live.session, end).await;
    live.attempt.listing = Some(started.elapsed());
    if let Err(RequestError::Lost { .. }) = &listing {
        return Err(site.session_failure(&mut live).await);
    }
    Ok((live, listing))
}
