//! Absolute and idle time limits of requests.
//!
//! [`Deadline`] holds the limits of one request. [`ActivityClock`] is shared by all requests of a
//! session: it records when the server last sent a notification or a request, and pauses all
//! deadlines while the client handles a request of the server, for example one that asks the user.
//!
//! Invariant: the time that the user takes to answer does not count against any deadline.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use switchboard_wire::sync::lock;

/// Interval between two checks of a deadline while the clock is paused.
const RECHECK_WHILE_PAUSED: Duration = Duration::from_secs(1);

/// The clock of one session. Holds the time of the server's last notification or request, and the
/// pauses of all deadlines.
#[derive(Debug)]
pub(crate) struct ActivityClock {
    started_at: Instant,
    /// Milliseconds from `started_at` to the last notification or request of the server, or to the
    /// end of the last pause.
    last_activity: AtomicU64,
    /// Whether the clock was ever paused. If not, deadline checks need not lock `user_wait`.
    ever_paused: AtomicBool,
    user_wait: Mutex<UserWait>,
}

/// The pauses of the clock: times during which at least one [`ClockPause`] existed.
#[derive(Debug, Default)]
struct UserWait {
    /// Number of [`ClockPause`] guards that exist now.
    open: usize,
    /// When the current pause began. `None` if the clock is not paused.
    since: Option<Instant>,
    /// Total length of the pauses that have ended.
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

    /// Restarts the idle limits of all requests: the server sent a notification or a request.
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

    /// Total length of all pauses so far, including the current one.
    fn paused_for(&self) -> Duration {
        if !self.ever_paused() {
            return Duration::ZERO;
        }
        let user_wait = lock(&self.user_wait);
        let current = user_wait.since.map(|since| since.elapsed());
        user_wait.past + current.unwrap_or_default()
    }
}

/// Keeps an [`ActivityClock`] paused for as long as this guard exists. Several guards may exist at
/// once.
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

/// The total and the idle time limit of one request. Time during which the session's
/// `ActivityClock` is paused does not count.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    started_at: Instant,
    total: Duration,
    /// Maximum time without a notification or request of the server. `None` if there is no such
    /// limit, or if it is not less than `total`.
    idle: Option<Duration>,
}

/// Which limit of a deadline was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The limit that was exceeded: `idle` or `total` of the [`Deadline`].
    pub(crate) after: Duration,
    /// Whether the idle limit was exceeded, not the total limit.
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

    /// Expires at `end`, or after the time `idle` without a notification or request of the server.
    pub fn until(end: Instant, idle: Duration) -> Self {
        let started_at = Instant::now();
        let total = end.saturating_duration_since(started_at);
        Self {
            started_at,
            total,
            idle: Some(idle).filter(|idle| *idle < total),
        }
    }

    /// Postpones the deadline by `pause`, the time that the user took to answer the input requests
    /// of this request.
    pub fn extended_by(mut self, pause: Duration) -> Self {
        self.started_at += pause;
        self
    }

    /// Time until the total limit is exceeded. Ignores the idle limit and pauses of the clock.
    pub(crate) fn remaining(self) -> Duration {
        (self.started_at + self.total).saturating_duration_since(Instant::now())
    }

    /// The idle limit. `None` if there is none, or if it is not less than the total limit.
    pub(crate) fn idle(self) -> Option<Duration> {
        self.idle
    }

    /// Binds the deadline to the clock of a session. Only pauses after this call postpone it.
    pub(crate) fn start(self, clock: &ActivityClock) -> RunningDeadline {
        RunningDeadline {
            deadline: self,
            paused_before: clock.paused_for(),
        }
    }
}

/// A [`Deadline`] that was started. Pauses of the session's clock postpone it.
#[derive(Debug)]
pub(crate) struct RunningDeadline {
    deadline: Deadline,
    /// Total length of the clock's pauses before this deadline was started.
    paused_before: Duration,
}

pub(crate) enum DeadlineCheck {
    /// Not expired. Check again at this instant.
    Pending(Instant),
    Expired(Expired),
}

impl RunningDeadline {
    /// Waits until the deadline passes, and returns which limit was exceeded.
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

    /// A deadline with the remaining total time of this one, and with the idle limit restarted.
    pub(crate) fn after_activity(&self, clock: &ActivityClock) -> Deadline {
        let now = Instant::now();
        Deadline {
            started_at: now,
            total: self.absolute_end(clock).saturating_duration_since(now),
            idle: self.deadline.idle,
        }
    }

    /// When the deadline passes, unless a notification, a request or a pause postpones it.
    pub(crate) fn end(&self, clock: &ActivityClock) -> Instant {
        self.end_and_cause(clock).0
    }

    fn absolute_end(&self, clock: &ActivityClock) -> Instant {
        let paused = clock.paused_for().saturating_sub(self.paused_before);
        self.deadline.started_at + self.deadline.total + paused
    }

    /// When the deadline passes, and whether it is the idle limit that is exceeded then.
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
