//! Limits the elicitation and sampling requests of a server.
//!
//! The counters belong to the server and outlive its sessions, so a reconnect does not reset them.
//!
//! Invariant: at most one request of each kind is open at a time, and no more than the limit are
//! accepted per minute.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use switchboard_wire::Limits;
use switchboard_wire::sync::lock;

const MINUTE: Duration = Duration::from_secs(60);

/// The limiters of one server, one per kind of request.
#[derive(Debug)]
pub struct QuestionLimits {
    pub(crate) elicitation: QuestionLimiter,
    pub(crate) sampling: QuestionLimiter,
}

impl QuestionLimits {
    pub fn new(limits: &Limits) -> Self {
        Self {
            elicitation: QuestionLimiter::new(limits.questions_per_minute),
            sampling: QuestionLimiter::new(limits.samplings_per_minute),
        }
    }
}

/// Accepts at most `per_minute` requests per minute and lets one of them run at a time.
#[derive(Debug)]
pub(crate) struct QuestionLimiter {
    running: Semaphore,
    pub(crate) per_minute: usize,
    recent: Mutex<RecentRequests>,
}

#[derive(Debug, Default)]
struct RecentRequests {
    /// Arrival of the requests that were accepted within the last minute; at most `per_minute`.
    accepted: VecDeque<Instant>,
    /// Whether a request was rejected since the last accepted one.
    is_rejecting: bool,
}

/// A request was rejected because too many arrived within a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitReached {
    /// This is the first rejected request since the last accepted one.
    pub(crate) is_first: bool,
}

impl QuestionLimiter {
    fn new(per_minute: usize) -> Self {
        Self {
            running: Semaphore::new(1),
            per_minute,
            recent: Mutex::default(),
        }
    }

    /// Counts a request and waits until no earlier one is running, in order of arrival. The request
    /// runs until the permit is dropped.
    pub(crate) async fn acquire(&self) -> Result<Option<SemaphorePermit<'_>>, LimitReached> {
        self.count()?;
        // `None` cannot occur: the semaphore is never closed.
        Ok(self.running.acquire().await.ok())
    }

    fn count(&self) -> Result<(), LimitReached> {
        let now = Instant::now();
        let mut recent = lock(&self.recent);
        while recent
            .accepted
            .front()
            .is_some_and(|arrival| now - *arrival >= MINUTE)
        {
            recent.accepted.pop_front();
        }
        if recent.accepted.len() >= self.per_minute {
            let is_first = !std::mem::replace(&mut recent.is_rejecting, true);
            return Err(LimitReached { is_first });
        }
        recent.accepted.push_back(now);
        recent.is_rejecting = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_per_minute_are_limited_and_first_rejection_is_marked() {
        let limiter = QuestionLimiter::new(2);
        let rejected = |is_first| Err(LimitReached { is_first });
        assert_eq!(limiter.count(), Ok(()));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(limiter.count(), Ok(()));
        assert_eq!(limiter.count(), rejected(true));
        assert_eq!(limiter.count(), rejected(false));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(limiter.count(), Ok(()));
        assert_eq!(limiter.count(), rejected(true));
    }
}
