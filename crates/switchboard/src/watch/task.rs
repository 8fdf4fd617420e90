//! The task of one watch: follows the sessions of its server, subscribes or polls, and records
//! snapshots.
//!
//! A refresh reads the resource or calls the tool once. Invariants: refreshes of one watch never
//! overlap. Without a session, the task sends nothing and waits for the next session.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use switchboard_client::session::subscriptions::{Subscription, SubscriptionEvent};
use switchboard_client::session::{Session, run_blocking};
use switchboard_wire::naming;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::snapshot::Snapshot;
use super::table::{WatchHealth, WatchSpec, WatchTable};
use super::{WatchKind, WatchTarget};
use crate::call::{Call, CallError, WatchApproval};
use crate::host_state::HostState;
use crate::id::ToolName;
use crate::limits::LARGE_MESSAGE_BYTES;
use crate::query::QueryError;
use crate::server::ServerHandle;
use crate::server::state::{Phase, State};

/// A burst of notifications causes one refresh. The refresh starts after this time without another
/// notification.
const DEBOUNCE_QUIET: Duration = Duration::from_millis(150);
/// A burst of notifications delays the refresh by at most this time.
const DEBOUNCE_MAX: Duration = Duration::from_secs(1);
/// The polling interval doubles with every consecutive failure, up to this number of times.
const MAX_BACKOFF_EXPONENT: u32 = 4;
/// If the connection is lost, the watch reports a failure only after this many consecutive failed
/// refreshes.
const LOSSES_BEFORE_REPORT: u32 = 3;
/// A server can have stopped before the host removes it. The task waits this long before it checks
/// such a server again.
const SERVER_RECHECK_DELAY: Duration = Duration::from_secs(1);

type StartedSender = oneshot::Sender<Result<(), QueryError>>;

pub(super) struct WatchTask {
    host: Arc<HostState>,
    table: Arc<WatchTable>,
    spec: Arc<WatchSpec>,
    approval: WatchApproval,
    /// Reports to [`start_watch`](super::start_watch) that the watch has started, or why it failed.
    started: Option<StartedSender>,
    consecutive_failures: u32,
    last_refresh_failed: bool,
    next_poll_at: Instant,
}

/// A failed refresh, classified by its effect on the health of the watch.
enum RefreshFailure {
    /// The connection was lost or the server is not available. The next refresh may succeed.
    Lost(String),
    Failed(String),
    NotPermitted(String),
    HostStopping,
}

/// The events that the task of a subscription waits for.
enum Wake {
    SessionEnded,
    Notified(SubscriptionEvent),
    Poll,
}

impl WatchTask {
    pub(super) fn new(
        host: Arc<HostState>,
        table: Arc<WatchTable>,
        spec: Arc<WatchSpec>,
        started: StartedSender,
    ) -> Self {
        Self {
            host,
            table,
            spec,
            approval: WatchApproval::default(),
            started: Some(started),
            consecutive_failures: 0,
            last_refresh_failed: false,
            next_poll_at: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        let stop = self.spec.stop.clone();
        stop.run_until_cancelled(self.run_until_removed()).await;
    }

    /// Subscribes or polls in one session after another, until the server is removed.
    async fn run_until_removed(&mut self) {
        if matches!(self.spec.target, WatchTarget::Tool { .. }) {
            // The first call may take long and may need permission, so `start_watch` does not wait
            // for it.
            self.report_started(Ok(())).await;
        }
        while let Some((server, session)) = self.next_session().await {
            match &self.spec.target {
                WatchTarget::Resource { uri } if self.spec.is_subscription() => {
                    let uri = uri.clone();
                    self.follow_subscription(&server, &session, &uri).await;
                }
                _ => self.poll(&server, &session).await,
            }
        }
        let summary = format!("server {} was removed: the watch ended", self.spec.server);
        self.table.end(&self.spec, &summary);
    }

    /// Waits for an open session of the server. Returns `None` if the server was removed.
    async fn next_session(&mut self) -> Option<(Arc<ServerHandle>, Session)> {
        let mut last: Option<Arc<ServerHandle>> = None;
        loop {
            let name = &self.spec.server;
            let server = self.host.server_after_config_change(name).await?;
            let principal = &self.spec.context.principal;
            let Ok(server) = server.for_principal(principal) else {
                sleep(SERVER_RECHECK_DELAY).await;
                continue;
            };
            if last.is_some_and(|last| Arc::ptr_eq(&last, &server)) {
                sleep(SERVER_RECHECK_DELAY).await;
            }
            let mut state = server.watch_state();
            if state.borrow().phase == Phase::Dormant {
                server.start_and_settle().await;
            }
            loop {
                let now = state.borrow_and_update().clone();
                if let Some(session) = now.session.clone().filter(|_| now.enabled) {
                    return Some((server, session));
                }
                self.report_unavailable(&server, &now).await;
                if now.phase == Phase::Stopped {
                    break;
                }
                if state.changed().await.is_err() {
                    break;
                }
            }
            last = Some(server);
        }
    }

    /// Reports a failure if the server is disabled, or if the host does not reconnect it without an
    /// order. Does nothing if the server is stopped or dormant.
    async fn report_unavailable(&mut self, server: &ServerHandle, state: &State) {
        let is_over = state.phase == Phase::Stopped || state.phase == Phase::Dormant;
        let will_reconnect = state.enabled && !state.has_given_up();
        if is_over || will_reconnect {
            return;
        }
        if self.started.is_some() {
            let error = QueryError::Unavailable(server.unavailable(state));
            self.report_started(Err(error)).await;
        }
        let reason = state.error().or_else(|| state.detail());
        let reason = reason
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        let status = state.status();
        let summary = format!("server {} is {status}{reason}", self.spec.server);
        self.table
            .set_health(&self.spec, WatchHealth::Failed, &summary);
    }

    /// Subscribes, and refreshes on notifications. Polls if the server does not support
    /// subscriptions or ends the subscription.
    async fn follow_subscription(&mut self, server: &ServerHandle, session: &Session, uri: &str) {
        let subscribed = tokio::select! {
            biased;
            () = session_ended(server, session) => return,
            subscribed = session.subscribe(uri) => subscribed,
        };
        let reason = match subscribed {
            Ok(mut subscription) => {
                self.set_effective_kind(WatchKind::Subscription, None);
                // Detects changes that happened before the subscription.
                self.refresh().await;
                let updates = self.process_updates(server, session, &mut subscription);
                match updates.await {
                    Some(reason) => reason,
                    None => return,
                }
            }
            Err(unsupported) => unsupported.0,
        };
        self.set_effective_kind(WatchKind::Poll, Some(reason));
        self.poll(server, session).await;
    }

    /// Refreshes after each burst of notifications, and retries a failed refresh at intervals.
    /// Returns `None` when the session ends, and the reason when the subscription ends.
    async fn process_updates(
        &mut self,
        server: &ServerHandle,
        session: &Session,
        subscription: &mut Subscription,
    ) -> Option<Arc<str>> {
        loop {
            let wake = tokio::select! {
                biased;
                () = session_ended(server, session) => Wake::SessionEnded,
                event = subscription.next() => Wake::Notified(event),
                () = sleep_until(self.next_poll_at), if self.last_refresh_failed => Wake::Poll,
            };
            match wake {
                Wake::SessionEnded => return None,
                Wake::Notified(SubscriptionEvent::Ended(reason)) => return Some(reason.0),
                Wake::Notified(SubscriptionEvent::Updated) => {
                    debounce(subscription).await;
                    self.refresh().await;
                }
                Wake::Poll => self.refresh().await,
            }
        }
    }

    /// Refreshes at intervals, until the session ends.
    async fn poll(&mut self, server: &ServerHandle, session: &Session) {
        loop {
            tokio::select! {
                biased;
                () = session_ended(server, session) => return,
                () = sleep_until(self.next_poll_at) => {}
            }
            self.refresh().await;
        }
    }

    fn set_effective_kind(&self, kind: WatchKind, note: Option<Arc<str>>) {
        self.table.set_effective_kind(&self.spec, kind, note);
    }

    /// Reads the resource or calls the tool once, and records the outcome.
    async fn refresh(&mut self) {
        let outcome = match &self.spec.target {
            WatchTarget::Resource { uri } => self.read(uri).await,
            WatchTarget::Tool { name, .. } => self.call(name).await,
        };
        self.last_refresh_failed = outcome.is_err();
        match outcome {
            Ok(snapshot) => {
                self.consecutive_failures = 0;
                let summary = "the target can be read again";
                self.table.set_health(&self.spec, WatchHealth::Ok, summary);
                self.table.record_snapshot(&self.spec, snapshot);
                self.report_started(Ok(())).await;
            }
            Err(error) => {
                if self.started.is_some()
                    && let RefreshError::Query(error) = error
                {
                    self.report_started(Err(error)).await;
                    return;
                }
                self.report_failure(error.into());
            }
        }
        let exponent = self.consecutive_failures.min(MAX_BACKOFF_EXPONENT);
        let interval = self.spec.interval * (1 << exponent);
        let jitter = 0.9 + 0.2 * fastrand::f64();
        self.next_poll_at = Instant::now() + interval.mul_f64(jitter);
    }

    fn report_failure(&mut self, failure: RefreshFailure) {
        let (health, summary) = match failure {
            RefreshFailure::NotPermitted(reason) => {
                self.consecutive_failures = 0;
                (WatchHealth::NotPermitted, reason)
            }
            RefreshFailure::Failed(reason) => {
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                (WatchHealth::Failed, reason)
            }
            RefreshFailure::Lost(reason) => {
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                if self.consecutive_failures < LOSSES_BEFORE_REPORT {
                    return;
                }
                (WatchHealth::Failed, reason)
            }
            RefreshFailure::HostStopping => return,
        };
        self.table.set_health(&self.spec, health, &summary);
    }

    /// Reports once that the watch started or failed to start. After a failure, the task waits
    /// until it is cancelled.
    async fn report_started(&mut self, outcome: Result<(), QueryError>) {
        let is_failure = outcome.is_err();
        if let Some(started) = self.started.take() {
            // An error means that the future of `start_watch` was dropped, which removes the watch.
            let _ = started.send(outcome);
            if is_failure {
                pending::<()>().await;
            }
        }
    }

    async fn read(&self, uri: &str) -> Result<Snapshot, RefreshError> {
        let spec = &self.spec;
        let result = (self.host).read_resource(spec.server.as_str(), uri, &spec.context);
        let result = result.await.map_err(RefreshError::Query)?;
        let max_text_bytes = self.host.limits.watch_text_bytes;
        let parts = result.contents.iter();
        let size: usize = parts
            .map(|body| {
                body.text
                    .as_ref()
                    .or(body.blob.as_ref())
                    .map_or(0, String::len)
            })
            .sum();
        if size <= LARGE_MESSAGE_BYTES {
            return Ok(Snapshot::of_resource(&result, max_text_bytes));
        }
        let snapshot = run_blocking(move || Snapshot::of_resource(&result, max_text_bytes)).await;
        snapshot.map_err(|_| RefreshError::Query(QueryError::ShuttingDown))
    }

    async fn call(&self, tool: &ToolName) -> Result<Snapshot, RefreshError> {
        let WatchTarget::Tool { arguments, .. } = &self.spec.target else {
            return Err(RefreshError::Query(QueryError::ShuttingDown));
        };
        let wire_name = naming::wire_name(&self.spec.server, tool);
        let arguments = arguments.clone();
        let call = Call::new(&self.host, wire_name.as_str().into(), arguments.into());
        let call = call
            .context(self.spec.context.clone())
            .for_watch(&self.approval);
        let output = call.await.map_err(RefreshError::Call)?;
        let max_text_bytes = self.host.limits.watch_text_bytes;
        Ok(Snapshot::of_output(&output, max_text_bytes))
    }
}

enum RefreshError {
    Query(QueryError),
    Call(CallError),
}

impl From<RefreshError> for RefreshFailure {
    fn from(error: RefreshError) -> Self {
        match error {
            RefreshError::Query(QueryError::ShuttingDown)
            | RefreshError::Call(CallError::ShuttingDown) => Self::HostStopping,
            RefreshError::Query(
                error @ (QueryError::Unavailable(_)
                | QueryError::ConnectionLost { .. }
                | QueryError::UnknownServer(_)),
            ) => Self::Lost(error.to_string()),
            RefreshError::Query(error @ QueryError::Denied { .. }) => {
                Self::NotPermitted(error.to_string())
            }
            RefreshError::Query(error) => {
                Self::Failed(format!("the resource cannot be read: {error}"))
            }
            RefreshError::Call(
                error @ (CallError::Unavailable(_)
                | CallError::NotSent { .. }
                | CallError::OutcomeUnknown { .. }),
            ) => Self::Lost(error.to_string()),
            RefreshError::Call(error @ CallError::Denied { .. }) => {
                Self::NotPermitted(error.to_string())
            }
            RefreshError::Call(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Waits until a burst of notifications ends, at most [`DEBOUNCE_MAX`]. A burst ends when no
/// notification arrives for [`DEBOUNCE_QUIET`].
async fn debounce(subscription: &mut Subscription) {
    let end = Instant::now() + DEBOUNCE_MAX;
    loop {
        sleep_until(end.min(Instant::now() + DEBOUNCE_QUIET)).await;
        if !subscription.take_pending() || Instant::now() >= end {
            return;
        }
    }
}

/// Waits until this session is no longer the session of the server, or the server is disabled.
async fn session_ended(server: &ServerHandle, session: &Session) {
    let mut state: watch::Receiver<State> = server.watch_state();
    let has_ended = |state: &State| {
        let current = state.session.as_ref().filter(|_| state.enabled);
        !current.is_some_and(|current| current.is_same_as(session))
    };
    // An error means that the owner task of the server ended, and the session with it.
    let _ = state.wait_for(has_ended).await;
}
