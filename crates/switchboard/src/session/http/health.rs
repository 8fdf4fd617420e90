//! Whether a remote server is still there, found out before a call has to.
//!
//! A server that has said nothing for a while is asked something that costs it nothing; so is one
//! whose connection broke, and every one after the machine slept. Too many failures in a row end the
//! session, so that its owner leaves the server alone for a while.
//!
//! Invariant: a server that answers anything at all, be it a status, is alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sse_2024::Sse2024Session;
use super::streamable::StreamableHttpSession;
use crate::session::deadline::Deadline;
use crate::session::{Delivery, RequestError, SessionEnd, TransportFailure};
use crate::wire::Answer;

/// So many failures in a row are one too many.
const FAILURES: u32 = 5;

/// How a host looks after its remote servers.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// A server that was silent for so long is asked whether it is there.
    pub(crate) idle: Duration,
    /// How long it may take to answer that.
    pub(crate) deadline: Duration,
    /// ListChanges whenever the machine has slept.
    pub(crate) slept: watch::Receiver<u64>,
}

/// The signs of life of one session.
pub(super) struct HealthMonitor {
    health: Health,
    began: Instant,
    /// Milliseconds from `began` to the last answer.
    last: AtomicU64,
    /// Failures since then.
    failures: AtomicU32,
    /// Requests under way, other than ours whether it is there.
    under_way: AtomicU32,
    /// Somebody doubts that the server is there.
    doubt: Notify,
}

impl HealthMonitor {
    pub(super) fn new(health: &Health) -> Self {
        Self {
            health: health.clone(),
            began: Instant::now(),
            last: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            under_way: AtomicU32::new(0),
            doubt: Notify::new(),
        }
    }

    /// The server answered.
    pub(super) fn record_success(&self) {
        self.put_off();
        self.failures.store(0, Ordering::Relaxed);
    }

    /// The next look is as far away as if it had answered.
    fn put_off(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(elapsed, Ordering::Relaxed);
    }

    /// A request begins; a server that works on one may have no time for another.
    pub(super) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether more than one request is under way.
    pub(super) fn has_concurrent_requests(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 1
    }

    fn is_at_work(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// A request failed; whether that was one too many.
    pub(super) fn record_failure(&self) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES
    }

    /// Asks the server soon whether it is there.
    pub(super) fn check_now(&self) {
        self.doubt.notify_one();
    }

    fn next_check(&self) -> Instant {
        self.began + Duration::from_millis(self.last.load(Ordering::Relaxed)) + self.health.idle
    }

    /// Comes back when it is time to ask.
    pub(super) async fn is_in_doubt(&self, slept: &mut watch::Receiver<u64>) {
        loop {
            let next = self.next_check();
            tokio::select! {
                () = self.doubt.notified() => return,
                Ok(()) = slept.changed() => return,
                () = tokio::time::sleep_until(next) => {
                    if self.next_check() <= Instant::now() {
                        return;
                    }
                }
            }
        }
    }
}

/// A session whose server can be asked whether it is there.
pub(super) trait Pingable: Send + Sync + 'static {
    fn health(&self) -> &HealthMonitor;

    fn stop(&self) -> CancellationToken;

    /// Asks for something that costs the server nothing.
    fn ask_for_life(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Answer, RequestError>> + Send;

    /// The server is not there.
    fn give_up(&self, end: SessionEnd);
}

impl Pingable for StreamableHttpSession {
    fn health(&self) -> &HealthMonitor {
        &self.health
    }

    fn stop(&self) -> CancellationToken {
        self.peer.stop.clone()
    }

    async fn ask_for_life(self: &Arc<Self>, deadline: Deadline) -> Result<Answer, RequestError> {
        StreamableHttpSession::ask_for_life(self, deadline).await
    }

    fn give_up(&self, end: SessionEnd) {
        self.peer.end(end);
    }
}

impl Pingable for Sse2024Session {
    fn health(&self) -> &HealthMonitor {
        &self.health
    }

    fn stop(&self) -> CancellationToken {
        self.peer.stop.clone()
    }

    async fn ask_for_life(self: &Arc<Self>, deadline: Deadline) -> Result<Answer, RequestError> {
        self.ping(deadline).await
    }

    fn give_up(&self, end: SessionEnd) {
        self.end(end);
    }
}

/// Asks a server whether it is there whenever there is doubt, until the session is over.
pub(super) async fn watch<S: Pingable>(session: Arc<S>) {
    let health = session.health();
    let mut slept = health.health.slept.clone();
    let stop = session.stop();
    loop {
        let doubt = health.is_in_doubt(&mut slept);
        if stop.run_until_cancelled(doubt).await.is_none() {
            return;
        }
        let deadline = Deadline::after(health.health.deadline);
        let Err(error) = session.ask_for_life(deadline).await else {
            health.record_success();
            continue;
        };
        match error {
            // Said by the server itself, or by what stands in front of it and knows better.
            RequestError::ErrorResponse(_)
            | RequestError::InvalidResponse(_)
            | RequestError::Transport(TransportFailure {
                delivery: Delivery::Answered,
                ..
            }) => health.record_success(),
            // Those who wait for it have deadlines of their own.
            RequestError::TimedOut { .. } if health.is_at_work() => health.put_off(),
            error => {
                let end = SessionEnd::Unreachable(format!("it no longer answers: {error}"));
                session.give_up(end);
                return;
            }
        }
    }
}
