//! Limits the elicitation and sampling requests of a server.
//!
//! The counters belong to the server and outlive its sessions, so a reconnect does not reset them.
//!
//! Invariant: for each kind of request, at most one is being answered at a time, and at most
//! `per_minute` are accepted within a minute.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use switchboard_wire::Limits;
use switchboard_wire::sync::lock;

const MINUTE: Duration = Duration::from_secs(60);

/// The limits for the requests of one server: one limiter for elicitation, one for sampling.
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

/// Accepts at most `per_minute` requests within a minute. Accepted requests are answered one at a
/// time.
#[derive(Debug)]
pub(crate) struct QuestionLimiter {
    running: Semaphore,
    pub(crate) per_minute: usize,
    recent: Mutex<RecentRequests>,
}

#[derive(Debug, Default)]
struct RecentRequests {
    /// Arrival times of the requests accepted within the last minute, oldest first; at most
    /// `per_minute`.
    accepted: VecDeque<Instant>,
    /// Whether the latest request was rejected.
    is_rejecting: bool,
}

/// The error for a request that was rejected because `per_minute` requests were already accepted
/// within the last minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitReached {
    /// Whether this is the first rejection since a request was accepted. Only the first of several
    /// rejections in a row is reported to the host.
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

    /// Counts a request and waits until all requests accepted before it have been answered.
    /// Dropping the permit ends the request. Fails without waiting if the limit is reached.
    pub(crate) async fn acquire(&self) -> Result<Option<SemaphorePermit<'_>>, LimitReached> {
        self.count()?;
        // `acquire` fails only if the semaphore is closed, which never happens.
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
