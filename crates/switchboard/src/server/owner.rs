//! The task that owns one server, including its session, its process and its backoff.
//!
//! The owner receives orders on a bounded channel and publishes its state on a `watch` channel.
//! Calls do not pass through this task: they use the session in the published state. Invariant: if
//! the first tool listing of a session succeeds, the catalog has the tools before the session is
//! published as ready.

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
use switchboard_wire::mcp::ToolDefinition;
use switchboard_wire::text::sanitize;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::ServerHandle;
use super::backoff::{Backoff, ConnectionFailure, FailureKind, GiveUpReason, RetryDecision};
use super::change_events::ChangeEvents;
use super::connect::{ConnectError, ConnectSetup};
use super::start_slots::{StartRequest, StartSlot};
use super::state::{FailureReason, Phase, State};
use super::tool_listing_refresh::{ListingExpiry, ListingRefresh, list_tools};
use crate::catalog::{CatalogPublisher, ServerKey};
use crate::event::{Event, EventSink};
use crate::status::{ConnectAttempt, ConnectStage};
use orders::{Activity, OrderOutcome};
pub(crate) use orders::{Order, RefreshReply};

/// Minimum interval between immediate reconnects after an expired session.
const MIN_IMMEDIATE_RECONNECT_INTERVAL: Duration = Duration::from_secs(10);

/// The data of the owner task. [`ServerHandle`] has the other ends of the channels.
pub(crate) struct Owner {
    pub(super) key: ServerKey,
    pub(super) setup: Arc<ConnectSetup>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) state: watch::Sender<State>,
    pub(super) catalog: Arc<CatalogPublisher>,
    pub(super) events: EventSink,
    pub(super) listing_expiry: Arc<ListingExpiry>,
    pub(super) backoff: Backoff,
    /// Failed connection attempts and lost sessions since the last connection attempt that listed
    /// the tools, or since the last reconnect order. The status shows this number.
    pub(super) failed_attempts: u32,
    /// The server that this server replaces. `None` once the replaced server has stopped.
    pub(super) replaces: Option<Arc<ServerHandle>>,
    /// The start slot that was requested when the server was added. `None` once it was used.
    pub(super) start_request: Option<StartRequest>,
    /// When an expired session was last replaced without a delay.
    pub(super) last_immediate_reconnect: Option<Instant>,
}

/// What the owner does next.
enum NextStep {
    WaitForOrder,
    Connect,
    Serve(Box<LiveSession>),
    RetryAt(Instant),
    End,
}

/// What woke the owner while a session is open.
enum Wake {
    /// `Order(None)` means that the server has to stop.
    Order(Option<Order>),
    SessionEnded,
    ToolsListed(Result<Listing<ToolDefinition>, RequestError>),
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
            // The replaced server and this server may need the same port or lock file.
            let stopped = replaced.wait_until_stopped();
            self.setup.stop.run_until_cancelled(stopped).await;
        }
        let mut step = match self.state.borrow().phase {
            Phase::Queued | Phase::Starting => NextStep::Connect,
            _ => NextStep::WaitForOrder,
        };
        loop {
            step = match step {
                NextStep::WaitForOrder => self.wait_for_order().await,
                NextStep::Connect => self.connect().await,
                NextStep::Serve(live) => self.serve(*live).await,
                NextStep::RetryAt(at) => self.wait_for_retry(at).await,
                NextStep::End => break,
            };
        }
        self.catalog.remove(&self.key);
        // Send no event: a server stops only when a method of the host is called or the host is
        // dropped.
        self.state.send_modify(|state| {
            state.phase = Phase::Stopped;
            state.session = None;
        });
    }

    /// Changes the published state. Sends an event if status, phase or error changed. The detail is
    /// not compared, because it contains the time until the next attempt.
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

    async fn wait_for_order(&mut self) -> NextStep {
        while let Some(order) = self.receive_order().await {
            if let Some(step) = self.handle_order_without_session(order, Activity::Idle) {
                return step;
            }
        }
        NextStep::End
    }

    /// Receives the next order. Returns `None` when the server has to stop. Cancel-safe.
    async fn receive_order(&mut self) -> Option<Order> {
        tokio::select! {
            biased;
            () = self.setup.stop.cancelled() => None,
            order = self.orders.recv() => order,
        }
    }

    /// Executes an order while no session is open. Returns the next step, or `None` if the owner
    /// continues what it was doing.
    fn handle_order_without_session(
        &mut self,
        order: Order,
        activity: Activity,
    ) -> Option<NextStep> {
        match self.handle_order(order, activity) {
            OrderOutcome::Done | OrderOutcome::RefreshTools(_) => None,
            OrderOutcome::Connect(done) => {
                let _ = done.send(());
                Some(NextStep::Connect)
            }
        }
    }

    async fn connect(&mut self) -> NextStep {
        let slot = match self.wait_for_start_slot().await {
            Ok(slot) => slot,
            Err(step) => return step,
        };
        self.setup.client.stage.set(ConnectStage::Open);
        self.publish(|state| state.phase = Phase::Starting);
        let started = Instant::now();
        let setup = Arc::clone(&self.setup);
        // Boxed to keep the future of the owner small, because a connection attempt is rarely in
        // progress.
        let mut attempt = Box::pin(connect_and_list(&setup, slot));
        let outcome = loop {
            tokio::select! {
                biased;
                order = self.receive_order() => {
                    let Some(order) = order else {
                        return NextStep::End;
                    };
                    if let Some(step) = self.handle_order_without_session(order, Activity::Connecting) {
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

    /// Waits until the server may start. Returns the next step instead if an order arrives that
    /// changes it.
    async fn wait_for_start_slot(&mut self) -> Result<StartSlot, NextStep> {
        let request = self.start_request.take();
        let setup = &self.setup;
        let mut request = request.unwrap_or_else(|| setup.start_slots.request(&setup.endpoint));
        if request.is_waiting() {
            self.publish(|state| state.phase = Phase::Queued);
        }
        loop {
            tokio::select! {
                biased;
                order = self.receive_order() => {
                    let order = order.ok_or(NextStep::End)?;
                    if let Some(step) = self.handle_order_without_session(order, Activity::Connecting) {
                        return Err(step);
                    }
                }
                slot = request.granted() => return Ok(slot),
            }
        }
    }

    fn on_connected(
        &mut self,
        live: LiveSession,
        listing: Result<Listing<ToolDefinition>, RequestError>,
        started: Instant,
    ) -> NextStep {
        let error = match listing {
            Ok(listing) => {
                self.backoff.record_success();
                self.failed_attempts = 0;
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
            state.handshake = live.session.handshake().cloned().map(Arc::new);
            state.error = error;
            state.connect_time = Some(connect_time);
            state.attempt = Some(attempt);
            state.stderr.clone_from(&live.stderr);
        });
        NextStep::Serve(Box::new(live))
    }

    /// Puts the tools into the catalog and into the server cache.
    fn publish_listing(&self, listing: Listing<ToolDefinition>) {
        for note in &listing.notes {
            let server = self.key.server.clone();
            let note = sanitize(note).into_owned();
            self.events.send(|| Event::ListingNoted { server, note });
        }
        self.listing_expiry.restart(listing.ttl());
        if let Some(key) = &self.setup.cache_key {
            self.setup.server_cache.remember_tools(key, &listing.items);
        }
        self.state
            .send_modify(|state| state.notes = Arc::new(listing.notes));
        self.catalog.set_tools(&self.key, listing.items, true);
    }

    fn on_connect_error(&mut self, error: &ConnectError) -> NextStep {
        let kind = if error.is_permanent() {
            FailureKind::Permanent
        } else if error.is_crash() && self.setup.endpoint.is_child() {
            FailureKind::Crash
        } else {
            FailureKind::Unreachable
        };
        self.schedule_retry(kind, error)
    }

    /// Schedules the next attempt, or gives up.
    fn schedule_retry(&mut self, kind: FailureKind, error: &ConnectError) -> NextStep {
        self.failed_attempts += 1;
        let attempt = self.failed_attempts;
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
                let at = self.setup.retry_slots.reserve(now + delay, now);
                self.catalog.set_available(&self.key, false);
                self.publish(|state| {
                    state.phase = Phase::Retrying { attempt, at };
                    state.session = None;
                    state.error = Some(error.to_string());
                });
                NextStep::RetryAt(at)
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

    /// Stops reconnecting, because every attempt would fail until the user has logged in.
    fn wait_for_login(&self, login: Box<LoginRequired>) -> NextStep {
        self.give_up(Phase::NeedsAuth(login))
    }

    fn give_up(&self, phase: Phase) -> NextStep {
        self.catalog.clear_tools(&self.key);
        self.publish(|state| {
            state.phase = phase;
            state.session = None;
        });
        NextStep::WaitForOrder
    }

    async fn wait_for_retry(&mut self, mut at: Instant) -> NextStep {
        let mut resumed = self.setup.resumed.clone();
        resumed.mark_unchanged();
        let is_remote = self.setup.endpoint.is_remote();
        loop {
            tokio::select! {
                biased;
                order = self.receive_order() => {
                    let Some(order) = order else {
                        return NextStep::End;
                    };
                    if let Some(step) = self.handle_order_without_session(order, Activity::Retrying) {
                        return step;
                    }
                }
                () = tokio::time::sleep_until(at) => return NextStep::Connect,
                // After a suspend the machine may be in another network, so retry at once.
                Ok(()) = resumed.changed(), if is_remote => {
                    let now = Instant::now();
                    at = self.setup.retry_slots.reserve(now, now);
                }
            }
        }
    }

    async fn serve(&mut self, mut live: LiveSession) -> NextStep {
        let mut refresh = ListingRefresh::new(self.state.borrow().error.is_some());
        let mut change_events = ChangeEvents::new();
        let setup = Arc::clone(&self.setup);
        let expiry = Arc::clone(&self.listing_expiry);
        loop {
            let session = live.session.clone();
            let wake = tokio::select! {
                biased;
                order = self.receive_order() => Wake::Order(order),
                () = live.ended() => Wake::SessionEnded,
                outcome = refresh.next(&setup, &session, &expiry) => Wake::ToolsListed(outcome),
                kind = change_events.next(&session) => Wake::ListChanged(kind),
            };
            match wake {
                Wake::Order(None) => {
                    // Send no event: a server stops only when a method of the host is called or the
                    // host is dropped.
                    self.state.send_modify(|state| state.phase = Phase::Lost);
                    self.close(live).await;
                    return NextStep::End;
                }
                Wake::Order(Some(order)) => match self.handle_order(order, Activity::Serving) {
                    OrderOutcome::Done => {}
                    OrderOutcome::RefreshTools(done) => refresh.order(done),
                    OrderOutcome::Connect(done) => {
                        self.close(live).await;
                        let _ = done.send(());
                        return NextStep::Connect;
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

    /// Publishes the outcome of a listing of an open session, other than its first listing.
    fn on_tools_listed(
        &mut self,
        outcome: Result<Listing<ToolDefinition>, RequestError>,
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

    /// Determines why the session ended, and decides when to reconnect.
    async fn on_session_end(&mut self, mut live: LiveSession) -> NextStep {
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
            return NextStep::Connect;
        }
        if matches!(end, SessionEnd::TooManyFailures(_)) {
            self.backoff.record_session_failure(live.age());
        }
        let error = self.setup.session_failure(&mut live).await;
        self.publish(|state| state.error = Some(error.to_string()));
        live.shut_down().await;
        let kind = if had_child {
            FailureKind::Crash
        } else {
            FailureKind::Unreachable
        };
        self.schedule_retry(kind, &error)
    }

    /// Whether an expired session is replaced without a delay. If sessions expire in quick
    /// succession, the usual delays apply.
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

/// Opens a session, releases the start slot and lists the tools. If the listing fails but the
/// session stays open, the session is still returned.
async fn connect_and_list(
    setup: &ConnectSetup,
    slot: StartSlot,
) -> Result<(LiveSession, Result<Listing<ToolDefinition>, RequestError>), ConnectError> {
    let end = Instant::now() + setup.client.deadlines.startup;
    let mut live = slot.hold_during(Box::pin(setup.connect(end))).await?;
    let started = Instant::now();
    setup.client.stage.set(ConnectStage::Listing);
    let listing = list_tools(setup, &live.session, end).await;
    live.attempt.listing = Some(started.elapsed());
    if let Err(RequestError::Lost { .. } | RequestError::UnknownSession) = &listing {
        return Err(setup.session_failure(&mut live).await);
    }
    Ok((live, listing))
}
