//! How often a server may ask, and whose turn it is.
//!
//! What belongs to a server outlives its sessions: one that connects anew has not asked less.
//! Invariant: somebody is asked one thing at a time by each server, and no more a minute than the
//! limit.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use switchboard_wire::Limits;
use switchboard_wire::sync::lock;

const MINUTE: Duration = Duration::from_secs(60);

/// The turns of one server, for each thing that it may ask for.
#[derive(Debug)]
pub struct Turns {
    pub(crate) questions: Turnstile,
    pub(crate) samplings: Turnstile,
}

impl Turns {
    pub fn new(limits: &Limits) -> Self {
        Self {
            questions: Turnstile::new(limits.questions_per_minute),
            samplings: Turnstile::new(limits.samplings_per_minute),
        }
    }
}

/// Lets one through at a time, and so many a minute.
#[derive(Debug)]
pub(crate) struct Turnstile {
    turn: Semaphore,
    pub(crate) per_minute: usize,
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    /// When the requests of the last minute came; at most as many as may come.
    came: VecDeque<Instant>,
    /// Whether it was told that more came than may.
    was_told: bool,
}

/// More came than may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitReached {
    /// None was turned away before it since the last that was let through.
    pub(crate) is_first: bool,
}

impl Turnstile {
    fn new(per_minute: usize) -> Self {
        Self {
            turn: Semaphore::new(1),
            per_minute,
            recent: Mutex::default(),
        }
    }

    /// Waits until it is this one's turn, which lasts as long as what is returned is held. Those who
    /// wait come in their order.
    pub(crate) async fn pass(&self) -> Result<Option<SemaphorePermit<'_>>, LimitReached> {
        self.count()?;
        // Never closed.
        Ok(self.turn.acquire().await.ok())
    }

    fn count(&self) -> Result<(), LimitReached> {
        let now = Instant::now();
        let mut recent = lock(&self.recent);
        while recent
            .came
            .front()
            .is_some_and(|came| now - *came >= MINUTE)
        {
            recent.came.pop_front();
        }
        if recent.came.len() >= self.per_minute {
            let is_first = !std::mem::replace(&mut recent.was_told, true);
            return Err(LimitReached { is_first });
        }
        recent.came.push_back(now);
        recent.was_told = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_minute_has_room_for_so_many_and_the_first_beyond_is_told() {
        let turnstile = Turnstile::new(2);
        let too_many = |is_first| Err(LimitReached { is_first });
        assert_eq!(turnstile.count(), Ok(()));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(turnstile.count(), Ok(()));
        assert_eq!(turnstile.count(), too_many(true));
        assert_eq!(turnstile.count(), too_many(false));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(turnstile.count(), Ok(()));
        assert_eq!(turnstile.count(), too_many(true));
    }
}
