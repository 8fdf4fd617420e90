//! Computes the delay before the next connection attempt, or decides to stop retrying.
//!
//! Pure: the caller passes the time, the failure and a random number, and gets a [`RetryDecision`].
//! The module neither sleeps nor connects.
//!
//! Invariant: only a successful tool listing or an order to connect resets the delay. A successful
//! listing does not remove crashes from the crash window.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// The parameters of [`Backoff`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RetryPolicy {
    /// The mean delay after the first failure.
    pub(crate) first_delay: Duration,
    /// Each delay is the previous delay times this factor.
    pub(crate) factor: f64,
    /// The maximum delay. Jitter is applied afterwards, so the actual delay can be longer.
    pub(crate) max_delay: Duration,
    /// The largest deviation from the mean delay, as a fraction of it. Keeps several hosts from
    /// retrying in step.
    pub(crate) jitter: f64,
    /// A longer `Retry-After` of a server is shortened to this time.
    pub(crate) max_retry_after: Duration,
    /// Maximum number of consecutive retries. `None`: unlimited.
    pub(crate) max_attempts: Option<u32>,
    /// This many crashes within [`RetryPolicy::crash_window`] are a crash loop.
    pub(crate) max_crashes: usize,
    /// A crash counts toward [`RetryPolicy::max_crashes`] for this long.
    pub(crate) crash_window: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_secs(1),
            factor: 1.6,
            max_delay: Duration::from_secs(120),
            jitter: 0.2,
            max_retry_after: Duration::from_secs(10 * 60),
            max_attempts: None,
            max_crashes: 5,
            crash_window: Duration::from_secs(3 * 60),
        }
    }
}

impl RetryPolicy {
    /// The policy of one-shot commands: no retries.
    pub(crate) fn never() -> Self {
        Self {
            max_attempts: Some(0),
            ..Self::default()
        }
    }
}

/// The failure of a connection attempt or of an open session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionFailure {
    pub(crate) kind: FailureKind,
    /// The delay that the server asked for with `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
}

impl ConnectionFailure {
    /// A failure without `Retry-After`.
    pub(crate) fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            retry_after: None,
        }
    }
}

/// The kinds of failure that [`Backoff`] treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The session of a child process ended, and no order had closed it.
    Crash,
    /// The server could not be reached, or the connection was lost.
    Unreachable,
    /// A retry would fail in the same way, for example because the command does not exist or the
    /// protocol version is not supported.
    Permanent,
}

/// What the owner does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    RetryIn(Duration),
    GiveUp(GiveUpReason),
}

/// Why the owner stops retrying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GiveUpReason {
    /// The child process crashed too often within the crash window.
    #[error("crashed {crashes} times within {} s", window.as_secs())]
    CrashLoop { crashes: usize, window: Duration },
    /// All `max` retries since the last successful listing or order to connect have failed.
    #[error("{}", describe_attempts(*max))]
    Attempts { max: u32 },
    /// The failure is permanent.
    #[error("a retry would fail as well")]
    Permanent,
}

fn describe_attempts(max: u32) -> String {
    match max {
        0 => "not retried".to_owned(),
        1 => "gave up after 1 retry".to_owned(),
        _ => format!("gave up after {max} retries"),
    }
}

/// The failures of one server, and the delay that results from them.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    policy: RetryPolicy,
    /// The next delay, before jitter is applied.
    delay: Duration,
    /// Retries granted since the last successful listing or order to connect.
    attempts: u32,
    /// The times of recent crashes, oldest first. At most [`RetryPolicy::max_crashes`].
    crashes: VecDeque<Instant>,
    /// The number of sessions that were closed because too many requests failed. A session of this
    /// kind that lasted at least [`RetryPolicy::crash_window`] sets the number to 1. An order to
    /// connect sets it to 0.
    failed_sessions: u32,
}

/// Bounds the loop in [`Backoff::record_session_failure`]. After this many failed sessions the
/// delay has reached its maximum.
const MAX_FAILED_SESSIONS: u32 = 32;

impl Backoff {
    /// Creates a history without failures.
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self {
            delay: policy.first_delay.min(policy.max_delay),
            policy,
            attempts: 0,
            crashes: VecDeque::new(),
            failed_sessions: 0,
        }
    }

    /// Records a failure and decides whether to retry. `random` is a number from 0 to 1.
    pub(crate) fn after_failure(
        &mut self,
        failure: ConnectionFailure,
        now: Instant,
        random: f64,
    ) -> RetryDecision {
        if failure.kind == FailureKind::Permanent {
            return RetryDecision::GiveUp(GiveUpReason::Permanent);
        }
        if failure.kind == FailureKind::Crash {
            self.record_crash(now);
        }
        if let Some(max) = self.policy.max_attempts.filter(|max| self.attempts >= *max) {
            return RetryDecision::GiveUp(GiveUpReason::Attempts { max });
        }
        if failure.kind == FailureKind::Crash && self.crashes.len() >= self.policy.max_crashes {
            return RetryDecision::GiveUp(GiveUpReason::CrashLoop {
                crashes: self.crashes.len(),
                window: self.policy.crash_window,
            });
        }
        self.attempts = self.attempts.saturating_add(1);
        let retry_after = failure.retry_after.unwrap_or_default();
        let retry_after = retry_after.min(self.policy.max_retry_after);
        RetryDecision::RetryIn(self.next_delay(random).max(retry_after))
    }

    /// Resets the delay after a successful listing. Crashes stay recorded, so that a server that
    /// crashes after every successful listing is recognized as a crash loop.
    pub(crate) fn record_success(&mut self) {
        self.delay = self.policy.first_delay.min(self.policy.max_delay);
        self.attempts = 0;
    }

    /// Records that an open session was closed after `age` because too many requests failed. The
    /// delay grows with each session of this kind, even if every handshake succeeds. A session of
    /// this kind that lasted at least the crash window starts the count again.
    pub(crate) fn record_session_failure(&mut self, age: Duration) {
        self.failed_sessions = if age >= self.policy.crash_window {
            1
        } else {
            self.failed_sessions.saturating_add(1)
        };
        for _ in 1..self.failed_sessions.min(MAX_FAILED_SESSIONS) {
            self.delay = scale(self.delay, self.policy.factor).min(self.policy.max_delay);
        }
    }

    /// Forgets all failures. Called when an order requests a connection.
    pub(crate) fn reset(&mut self) {
        self.record_success();
        self.failed_sessions = 0;
        self.crashes.clear();
    }

    fn record_crash(&mut self, now: Instant) {
        let window = self.policy.crash_window;
        self.crashes
            .retain(|crash| now.saturating_duration_since(*crash) <= window);
        if self.crashes.len() >= self.policy.max_crashes.max(1) {
            self.crashes.pop_front();
        }
        self.crashes.push_back(now);
    }

    fn next_delay(&mut self, random: f64) -> Duration {
        let mean = self.delay;
        self.delay = scale(mean, self.policy.factor).min(self.policy.max_delay);
        let random = if random.is_finite() {
            random.clamp(0.0, 1.0)
        } else {
            0.5
        };
        scale(mean, 1.0 + self.policy.jitter * (2.0 * random - 1.0))
    }
}

/// Like `Duration::mul_f64`, but saturates instead of panicking.
fn scale(duration: Duration, factor: f64) -> Duration {
    let seconds = (duration.as_secs_f64() * factor).max(0.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
