//! Delays between attempts to reach a server, and when to stop trying.
//!
//! Pure: it is told the time, the cause and a random number, and answers with a [`Verdict`]. It does
//! not wait, and it knows no server.
//!
//! Invariant: only a session that proved alive makes the delays short again, and not even that
//! forgets a crash before its window has passed.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// How to try again. Start from [`Policy::default`] and change what you must.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) struct Policy {
    /// The delay after the first failure.
    pub(crate) first: Duration,
    /// How much longer each delay is than the one before.
    pub(crate) factor: f64,
    /// The longest delay, before it is spread.
    pub(crate) cap: Duration,
    /// How far a delay may stray from its mean, as a share of it, so that hosts do not come back in step.
    pub(crate) spread: f64,
    /// The longest wait that a server may ask for.
    pub(crate) longest_retry_after: Duration,
    /// How many attempts may follow one another without success; `None` for any number.
    pub(crate) max_attempts: Option<u32>,
    /// How many crashes within [`Policy::crash_window`] are a crash loop.
    pub(crate) max_crashes: usize,
    /// How long a crash is remembered.
    pub(crate) crash_window: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            factor: 1.6,
            cap: Duration::from_secs(120),
            spread: 0.2,
            longest_retry_after: Duration::from_secs(10 * 60),
            max_attempts: None,
            max_crashes: 5,
            crash_window: Duration::from_secs(3 * 60),
        }
    }
}

impl Policy {
    /// Gives up at the first failure, as a one-shot command does.
    pub(crate) fn never() -> Self {
        Self {
            max_attempts: Some(0),
            ..Self::default()
        }
    }
}

/// What went wrong with an attempt or with the session that came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Which sort of failure.
    pub(crate) kind: FailureKind,
    /// How long the server asked to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of a server that did not say when to come back.
    pub(crate) fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            retry_after: None,
        }
    }
}

/// The sorts of failure that lead to different answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// Our child ended by itself.
    Crash,
    /// It could not be reached, or the connection was lost.
    Unreachable,
    /// Trying again cannot help: the command does not exist, the version is unknown.
    NotWorthRetrying,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Try again after this delay.
    RetryIn(Duration),
    /// Stop trying.
    GiveUp(GiveUp),
}

/// Why no further attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GiveUp {
    /// It crashes as often as it is started.
    #[error("crashed {crashes} times within {} s", window.as_secs())]
    CrashLoop {
        /// How often.
        crashes: usize,
        /// Within which time.
        window: Duration,
    },
    /// The allowed attempts are used up.
    #[error("{}", describe_attempts(*max))]
    Attempts {
        /// How many were allowed.
        max: u32,
    },
    /// Trying again cannot help.
    #[error("trying again cannot help")]
    NotWorthRetrying,
}

fn describe_attempts(max: u32) -> String {
    match max {
        0 => "not retried".to_owned(),
        1 => "gave up after 1 further attempt".to_owned(),
        _ => format!("gave up after {max} further attempts"),
    }
}

/// What one server's failures have led to so far.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    policy: Policy,
    /// The mean of the next delay.
    delay: Duration,
    /// Attempts granted since a session last proved alive.
    attempts: u32,
    /// When the server crashed, oldest first; never more than [`Policy::max_crashes`].
    crashes: VecDeque<Instant>,
    /// How many sessions in a row failed in use.
    trips: u32,
}

/// After so many of them the delay is the longest in any case.
const MOST_TRIPS: u32 = 32;

impl Backoff {
    /// Begins without a failure.
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            delay: policy.first.min(policy.cap),
            policy,
            attempts: 0,
            crashes: VecDeque::new(),
            trips: 0,
        }
    }

    /// Decides what follows a failure. `jitter` is a random number from 0 to 1.
    pub(crate) fn after_failure(&mut self, failure: Failure, now: Instant, jitter: f64) -> Verdict {
        if failure.kind == FailureKind::NotWorthRetrying {
            return Verdict::GiveUp(GiveUp::NotWorthRetrying);
        }
        if failure.kind == FailureKind::Crash {
            self.record_crash(now);
        }
        if let Some(max) = self.policy.max_attempts.filter(|max| self.attempts >= *max) {
            return Verdict::GiveUp(GiveUp::Attempts { max });
        }
        if failure.kind == FailureKind::Crash && self.crashes.len() >= self.policy.max_crashes {
            return Verdict::GiveUp(GiveUp::CrashLoop {
                crashes: self.crashes.len(),
                window: self.policy.crash_window,
            });
        }
        self.attempts = self.attempts.saturating_add(1);
        let asked = failure.retry_after.unwrap_or_default();
        let asked = asked.min(self.policy.longest_retry_after);
        Verdict::RetryIn(self.next_delay(jitter).max(asked))
    }

    /// A session answered: the next failure is the first again. Crashes stay on record, because a
    /// server that answers once and then dies, over and over, is in a crash loop all the same.
    pub(crate) fn proved_alive(&mut self) {
        self.delay = self.policy.first.min(self.policy.cap);
        self.attempts = 0;
    }

    /// A session that answered at first failed one request after the other, after `age`. One that
    /// does so over and over is left alone for longer and longer, however well it shakes hands.
    pub(crate) fn failed_in_use(&mut self, age: Duration) {
        self.trips = if age >= self.policy.crash_window {
            1
        } else {
            self.trips.saturating_add(1)
        };
        for _ in 1..self.trips.min(MOST_TRIPS) {
            self.delay = scale(self.delay, self.policy.factor).min(self.policy.cap);
        }
    }

    /// Somebody asks for the server: what failed before no longer counts.
    pub(crate) fn begin_afresh(&mut self) {
        self.proved_alive();
        self.trips = 0;
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

    fn next_delay(&mut self, jitter: f64) -> Duration {
        let mean = self.delay;
        self.delay = scale(mean, self.policy.factor).min(self.policy.cap);
        let jitter = if jitter.is_finite() {
            jitter.clamp(0.0, 1.0)
        } else {
            0.5
        };
        scale(mean, 1.0 + self.policy.spread * (2.0 * jitter - 1.0))
    }
}

/// As `Duration::mul_f64`, but what overflows is merely very long and what is negative is nothing.
fn scale(duration: Duration, factor: f64) -> Duration {
    let seconds = (duration.as_secs_f64() * factor).max(0.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
