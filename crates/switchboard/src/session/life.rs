//! Signs of life, and the time that people take to think.
//!
//! It measures; who gives up when is decided by a [`Patience`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::lock;

/// How often one looks again while a person is being asked something.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Life {
    began: Instant,
    /// Milliseconds from `began` to the last sign of life.
    last: AtomicU64,
    /// Somebody was asked something at some time; most servers never ask.
    was_asked: AtomicBool,
    thinking: Mutex<Thinking>,
}

/// The questions that are open, and how long people thought about earlier ones.
#[derive(Debug, Default)]
struct Thinking {
    open: usize,
    since: Option<Instant>,
    past: Duration,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
            was_asked: AtomicBool::new(false),
            thinking: Mutex::new(Thinking::default()),
        }
    }

    /// The server said something of its own accord.
    pub(crate) fn touch(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(elapsed, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    /// Stops the clocks of all requests until the guard is dropped.
    pub(crate) fn think(&self) -> ThinkingGuard<'_> {
        let mut thinking = lock(&self.thinking);
        self.was_asked.store(true, Ordering::Release);
        thinking.open += 1;
        thinking.since.get_or_insert_with(Instant::now);
        ThinkingGuard { life: self }
    }

    fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Acquire)
    }

    fn is_thinking(&self) -> bool {
        self.was_asked() && lock(&self.thinking).open > 0
    }

    /// How long people have thought in all so far.
    fn thought(&self) -> Duration {
        if !self.was_asked() {
            return Duration::ZERO;
        }
        let thinking = lock(&self.thinking);
        thinking.past
            + thinking
                .since
                .map_or(Duration::ZERO, |since| since.elapsed())
    }
}

pub(crate) struct ThinkingGuard<'a> {
    life: &'a Life,
}

impl Drop for ThinkingGuard<'_> {
    fn drop(&mut self) {
        let mut thinking = lock(&self.life.thinking);
        thinking.open -= 1;
        if thinking.open == 0 {
            let thought = thinking
                .since
                .take()
                .map_or(Duration::ZERO, |since| since.elapsed());
            thinking.past += thought;
        }
        drop(thinking);
        self.life.touch();
    }
}

/// How long one request is waited for, people's time not counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    began: Instant,
    total: Duration,
    idle: Option<Duration>,
}

/// Why a request was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) after: Duration,
    pub(crate) idle: bool,
}

impl Patience {
    /// Waits from now on, and for no more than this in all.
    pub(crate) fn within(total: Duration) -> Self {
        Self {
            began: Instant::now(),
            total,
            idle: None,
        }
    }

    /// Waits from now on until `end`, and at most `idle` without a sign of life.
    pub(crate) fn until(end: Instant, idle: Duration) -> Self {
        let began = Instant::now();
        let total = end.saturating_duration_since(began);
        Self {
            began,
            total,
            idle: Some(idle).filter(|idle| *idle < total),
        }
    }

    /// The same, not counting the time that somebody was asked something on behalf of this request
    /// alone.
    pub(crate) fn without(mut self, thought: Duration) -> Self {
        self.began += thought;
        self
    }

    /// From when on it waits.
    pub(crate) fn began(self) -> Instant {
        self.began
    }

    /// How much of it is left, if nobody takes their time.
    pub(crate) fn left(self) -> Duration {
        (self.began + self.total).saturating_duration_since(Instant::now())
    }

    /// How long it waits without a sign of life, if not for all of its time.
    pub(crate) fn idle(self) -> Option<Duration> {
        self.idle
    }

    pub(crate) fn start(self, life: &Life) -> Wait {
        Wait {
            patience: self,
            thought_before: life.thought(),
        }
    }
}

/// One request being waited for.
#[derive(Debug)]
pub(crate) struct Wait {
    patience: Patience,
    thought_before: Duration,
}

/// What a look at the clock brings.
pub(crate) enum Look {
    /// There is time, in any case until then.
    Again(Instant),
    /// Patience has run out.
    Over(Expired),
}

impl Wait {
    /// Comes back only when patience has run out.
    pub(crate) async fn run_out(&self, life: &Life) -> Expired {
        let mut now = self.patience.began;
        loop {
            match self.look(life, now) {
                Look::Again(then) => tokio::time::sleep_until(then).await,
                Look::Over(expired) => return expired,
            }
            now = Instant::now();
        }
    }

    pub(crate) fn look(&self, life: &Life, now: Instant) -> Look {
        let (end, idle) = self.end_and_reason(life);
        if life.is_thinking() {
            return Look::Again(now + LOOK_AGAIN);
        }
        if now < end {
            return Look::Again(end);
        }
        let Patience {
            total,
            idle: most_idle,
            ..
        } = self.patience;
        Look::Over(Expired {
            after: most_idle.filter(|_| idle).unwrap_or(total),
            idle,
        })
    }

    /// What is left of the patience after a sign of life that concerns this wait alone.
    pub(crate) fn after_sign(&self, life: &Life) -> Patience {
        let Patience { began, total, idle } = self.patience;
        let thought = life.thought().saturating_sub(self.thought_before);
        let now = Instant::now();
        Patience {
            began: now,
            total: (began + total + thought).saturating_duration_since(now),
            idle,
        }
    }

    /// When patience runs out as things stand.
    pub(crate) fn end(&self, life: &Life) -> Instant {
        self.end_and_reason(life).0
    }

    /// The same, and whether it does for want of a sign of life.
    fn end_and_reason(&self, life: &Life) -> (Instant, bool) {
        let Patience { began, total, idle } = self.patience;
        let thought = life.thought().saturating_sub(self.thought_before);
        let total = began + total + thought;
        match idle {
            Some(idle) => {
                let idle = life.last().max(began) + idle;
                if idle < total {
                    (idle, true)
                } else {
                    (total, false)
                }
            }
            None => (total, false),
        }
    }
}
