//! Health checks of a remote server.
//!
//! Each session pings its server after the time [`Health::idle`] without a response, when a
//! connection failed or a request timed out, and after the machine was suspended. A ping that fails
//! ends the session, except for a ping that timed out while requests were in flight. Too many
//! consecutive failed requests end the session, too. The owner of the server then reconnects with
//! backoff.
//!
//! Invariant: a server is healthy if it responds to a ping with a JSON-RPC result, a JSON-RPC
//! error, an invalid message, a redirect or an HTTP 4xx status. The exceptions are a required login
//! and an expired session, which end the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::session::deadline::Deadline;
use crate::session::peer::JsonRpcSession;
use crate::session::{Delivery, RequestError, SessionEnd, TransportFailure};
use switchboard_wire::jsonrpc::RawResult;

/// The session ends after this many consecutive requests failed with the delivery *unknown*.
const MAX_CONSECUTIVE_FAILURES: u32 = 5;

/// Settings of the health checks.
#[derive(Clone, Debug)]
pub struct Health {
    /// A server is pinged after this time without a response or, over HTTP+SSE, any event.
    pub idle: Duration,
    /// How long the server may take to respond to a ping.
    pub deadline: Duration,
    /// Changes each time the machine resumes from suspend.
    pub resumed: watch::Receiver<u64>,
}

/// Records successful and failed requests of one session, and decides when to ping.
pub(super) struct HealthMonitor {
    health: Health,
    started_at: Instant,
    /// Milliseconds from `started_at` to the last success, or to when the check was last postponed.
    last_success: AtomicU64,
    /// Number of failed requests since the last success.
    failures: AtomicU32,
    /// Number of requests in flight, not counting pings.
    in_flight: AtomicU32,
    check_requested: Notify,
}

impl HealthMonitor {
    pub(super) fn new(health: &Health) -> Self {
        Self {
            health: health.clone(),
            started_at: Instant::now(),
            last_success: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            check_requested: Notify::new(),
        }
    }

    pub(super) fn record_success(&self) {
        self.postpone_check();
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Postpones the next check until [`Health::idle`] from now. Unlike a success, this does not
    /// reset the count of failures.
    fn postpone_check(&self) {
        let elapsed = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_success.fetch_max(elapsed, Ordering::Relaxed);
    }

    /// Counts a request as in flight. While any request is in flight, a ping that times out does
    /// not end the session.
    pub(super) fn begin_request(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end_request(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn has_requests(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Records a failed request. Returns whether the session must end, because this was the
    /// [`MAX_CONSECUTIVE_FAILURES`]-th failure in a row.
    pub(super) fn record_failure(&self) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_CONSECUTIVE_FAILURES
    }

    /// Makes the health check of this session run now.
    pub(super) fn check_now(&self) {
        self.check_requested.notify_one();
    }

    fn next_check(&self) -> Instant {
        self.started_at
            + Duration::from_millis(self.last_success.load(Ordering::Relaxed))
            + self.health.idle
    }

    /// Waits until a check is due: after the idle time, on request, or after a resume from suspend.
    pub(super) async fn check_due(&self, resumed: &mut watch::Receiver<u64>) {
        loop {
            let next = self.next_check();
            tokio::select! {
                () = self.check_requested.notified() => return,
                Ok(()) = resumed.changed() => return,
                () = tokio::time::sleep_until(next) => {
                    if self.next_check() <= Instant::now() {
                        return;
                    }
                }
            }
        }
    }
}

/// A session whose server can be pinged.
pub(super) trait Pingable: JsonRpcSession {
    fn health(&self) -> &HealthMonitor;

    /// Sends a request to which any server responds quickly.
    fn ping(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> impl Future<Output = Result<RawResult, RequestError>> + Send;
}

/// Runs the health checks of a session until it ends.
pub(super) async fn run_checks<S: Pingable>(session: Arc<S>) {
    let monitor = session.health();
    let mut resumed = monitor.health.resumed.clone();
    let stop = session.peer().stop.clone();
    loop {
        let check_due = monitor.check_due(&mut resumed);
        if stop.run_until_cancelled(check_due).await.is_none() {
            return;
        }
        let deadline = Deadline::after(monitor.health.deadline);
        let Err(error) = session.ping(deadline).await else {
            monitor.record_success();
            continue;
        };
        match error {
            // A JSON-RPC response, a redirect or a 4xx status counts as reachable, even if a
            // reverse proxy sent it.
            RequestError::ErrorResponse(_)
            | RequestError::InvalidResponse(_)
            | RequestError::Transport(TransportFailure {
                delivery: Delivery::Answered,
                ..
            }) => monitor.record_success(),
            // The server may be too busy with other requests to respond. The deadlines of these
            // requests apply instead.
            RequestError::TimedOut { .. } if monitor.has_requests() => monitor.postpone_check(),
            error => {
                let end =
                    SessionEnd::Unreachable(format!("the server no longer responds: {error}"));
                session.end(end);
                return;
            }
        }
    }
}
