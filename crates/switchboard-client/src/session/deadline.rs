//! Absolute and idle time limits of requests.
//!
//! [`Deadline`] is the limit of one request. [`ActivityClock`] is shared by the requests of a
//! session: it records the last activity of the server, and pauses all deadlines while the user is
//! being asked.
//!
//! Invariant: the time that the user takes to answer does not count against any deadline.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use switchboard_wire::sync::lock;

/// How often a deadline is checked again while the user is being asked.
const RECHECK_WHILE_PAUSED: Duration = Duration::from_secs(1);

/// The clock of one session: last activity of the server, and pauses.
#[derive(Debug)]
pub(crate) struct ActivityClock {
    started_at: Instant,
    /// Milliseconds from `started_at` to the last activity of the server.
    last_activity: AtomicU64,
    /// Whether the clock was ever paused. Most sessions never pause it and skip the lock.
    ever_paused: AtomicBool,
    user_wait: Mutex<UserWait>,
}

/// Time spent waiting for the user.
#[derive(Debug, Default)]
struct UserWait {
    /// Number of open questions.
    open: usize,
    /// When the first of the open questions was asked.
    since: Option<Instant>,
    /// Time spent on questions that were answered.
    past: Duration,
}

impl ActivityClock {
    pub(crate) fn new() -> Self {
        Self {
            started_at: Instant::now(),
            last_activity: AtomicU64::new(0),
            ever_paused: AtomicBool::new(false),
            user_wait: Mutex::new(UserWait::default()),
        }
    }

    /// Records that the server was active just now.
    pub(crate) fn touch(&self) {
        let elapsed = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_activity.fetch_max(elapsed, Ordering::Relaxed);
    }

    fn last_activity(&self) -> Instant {
        self.started_at + Duration::from_millis(self.last_activity.load(Ordering::Relaxed))
    }

    /// Pauses the deadlines of all requests until the guard is dropped.
    pub(crate) fn pause(&self) -> ClockPause<'_> {
        let mut user_wait = lock(&self.user_wait);
        self.ever_paused.store(true, Ordering::Release);
        user_wait.open += 1;
        user_wait.since.get_or_insert_with(Instant::now);
        ClockPause { clock: self }
    }

    fn ever_paused(&self) -> bool {
        self.ever_paused.load(Ordering::Acquire)
    }

    fn is_paused(&self) -> bool {
        self.ever_paused() && lock(&self.user_wait).open > 0
    }

    /// Total time spent waiting for the user so far.
    fn paused_for(&self) -> Duration {
        if !self.ever_paused() {
            return Duration::ZERO;
        }
        let user_wait = lock(&self.user_wait);
        let current = user_wait.since.map(|since| since.elapsed());
        user_wait.past + current.unwrap_or_default()
    }
}

/// Keeps an [`ActivityClock`] paused.
pub(crate) struct ClockPause<'a> {
    clock: &'a ActivityClock,
}

impl Drop for ClockPause<'_> {
    fn drop(&mut self) {
        let mut user_wait = lock(&self.clock.user_wait);
        user_wait.open -= 1;
        if user_wait.open == 0 {
            let waited = user_wait.since.take().map(|since| since.elapsed());
            user_wait.past += waited.unwrap_or_default();
        }
        drop(user_wait);
        self.clock.touch();
    }
}

/// How long a request may take, not counting the time that the user takes to answer questions.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    started_at: Instant,
    total: Duration,
    /// Maximum time without activity of the server, if that is less than `total`.
    idle: Option<Duration>,
}

/// A deadline that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The limit that passed.
    pub(crate) after: Duration,
    /// Whether the idle limit passed. Otherwise the absolute deadline passed.
    pub(crate) idle: bool,
}

impl Deadline {
    /// Expires after `total`, counted from now.
    pub fn after(total: Duration) -> Self {
        Self {
            started_at: Instant::now(),
            total,
            idle: None,
        }
    }

    /// Expires at `end`, or after `idle` without activity of the server.
    pub fn until(end: Instant, idle: Duration) -> Self {
        let started_at = Instant::now();
        let total = end.saturating_duration_since(started_at);
        Self {
            started_at,
            total,
            idle: Some(idle).filter(|idle| *idle < total),
        }
    }

    /// Postpones the deadline by time that was spent asking the user on behalf of this request.
    pub fn extended_by(mut self, pause: Duration) -> Self {
        self.started_at += pause;
        self
    }

    /// Time until the absolute deadline.
    pub(crate) fn remaining(self) -> Duration {
        (self.started_at + self.total).saturating_duration_since(Instant::now())
    }

    /// Maximum time without activity, if it is less than the total.
    pub(crate) fn idle(self) -> Option<Duration> {
        self.idle
    }

    /// Starts the deadline of a request in the session with this clock.
    pub(crate) fn start(self, clock: &ActivityClock) -> RunningDeadline {
        RunningDeadline {
            deadline: self,
            paused_before: clock.paused_for(),
        }
    }
}

/// The deadline of a request in flight.
#[derive(Debug)]
pub(crate) struct RunningDeadline {
    deadline: Deadline,
    /// Pauses of the clock before this request was sent.
    paused_before: Duration,
}

/// Result of checking a deadline.
pub(crate) enum DeadlineCheck {
    /// Not expired. Check again at this instant.
    Pending(Instant),
    Expired(Expired),
}

impl RunningDeadline {
    /// Waits until the deadline passes.
    pub(crate) async fn expired(&self, clock: &ActivityClock) -> Expired {
        let mut now = self.deadline.started_at;
        loop {
            match self.check(clock, now) {
                DeadlineCheck::Pending(then) => tokio::time::sleep_until(then).await,
                DeadlineCheck::Expired(expired) => return expired,
            }
            now = Instant::now();
        }
    }

    pub(crate) fn check(&self, clock: &ActivityClock, now: Instant) -> DeadlineCheck {
        let (end, idle) = self.end_and_cause(clock);
        if clock.is_paused() {
            return DeadlineCheck::Pending(now + RECHECK_WHILE_PAUSED);
        }
        if now < end {
            return DeadlineCheck::Pending(end);
        }
        let Deadline {
            total,
            idle: max_idle,
            ..
        } = self.deadline;
        DeadlineCheck::Expired(Expired {
            after: max_idle.filter(|_| idle).unwrap_or(total),
            idle,
        })
    }

    /// The rest of this deadline, with the idle limit restarted.
    pub(crate) fn after_activity(&self, clock: &ActivityClock) -> Deadline {
        let now = Instant::now();
        Deadline {
            started_at: now,
            total: self.absolute_end(clock).saturating_duration_since(now),
            idle: self.deadline.idle,
        }
    }

    /// When the deadline passes, unless activity or a pause postpones it.
    pub(crate) fn end(&self, clock: &ActivityClock) -> Instant {
        self.end_and_cause(clock).0
    }

    fn absolute_end(&self, clock: &ActivityClock) -> Instant {
        let paused = clock.paused_for().saturating_sub(self.paused_before);
        self.deadline.started_at + self.deadline.total + paused
    }

    /// When the deadline passes, and whether the idle limit is what passes.
    fn end_and_cause(&self, clock: &ActivityClock) -> (Instant, bool) {
        let absolute = self.absolute_end(clock);
        let Some(idle) = self.deadline.idle else {
            return (absolute, false);
        };
        let idle_end = clock.last_activity().max(self.deadline.started_at) + idle;
        if idle_end < absolute {
            (idle_end, true)
        } else {
            (absolute, false)
        }
    }
}
