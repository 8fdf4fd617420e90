//! Whether other servers of a host are being asked something just now.
//!
//! A server that says something at length is read as fast as it speaks, unless that would be at the
//! expense of others. Every request notes its server here, so it must cost nearly nothing: of the
//! requests of a millisecond to one server only the first writes. What is known is a guess, of the last
//! two servers, and good enough for what it decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::Apart;

/// For so long after a request its server counts as being asked.
const RECENT: Duration = Duration::from_millis(100);
/// How many bits of a note tell the server; the others tell the millisecond.
const SERVER_BITS: u32 = 16;

/// What the servers of a host know of each other; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours(Arc<Apart<Notes>>);

#[derive(Debug)]
struct Notes {
    began: Instant,
    last: AtomicU64,
    /// Of the server that was asked before the last one.
    other: AtomicU64,
}

/// One server among its neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    all: Neighbours,
    server: u64,
}

impl Neighbours {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Apart(Notes {
            began: Instant::now(),
            last: AtomicU64::new(0),
            other: AtomicU64::new(0),
        })))
    }

    /// The server of this number.
    pub(crate) fn server(&self, number: u64) -> Neighbour {
        Neighbour {
            all: self.clone(),
            server: number % (1 << SERVER_BITS),
        }
    }
}

impl Neighbour {
    /// The server is asked something.
    pub(crate) fn is_asked(&self, now: Instant) {
        let notes = &self.all.0;
        let note = (self.millisecond(now) << SERVER_BITS) | self.server;
        let last = notes.last.load(Ordering::Relaxed);
        if last == note {
            return;
        }
        if server_of(last) != self.server {
            notes.other.store(last, Ordering::Relaxed);
        }
        notes.last.store(note, Ordering::Relaxed);
    }

    /// Whether others were asked something a moment ago.
    pub(crate) fn others_are_asked(&self) -> bool {
        let now = self.millisecond(Instant::now());
        let notes = &self.all.0;
        [&notes.last, &notes.other].into_iter().any(|note| {
            let note = note.load(Ordering::Relaxed);
            let passed = now.saturating_sub(note >> SERVER_BITS);
            note != 0 && server_of(note) != self.server && u128::from(passed) < RECENT.as_millis()
        })
    }

    /// Counted from one.
    fn millisecond(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.all.0.began);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX) + 1
    }
}

fn server_of(note: u64) -> u64 {
    note % (1 << SERVER_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn others_are_asked_for_a_moment_after_they_were_and_oneself_does_not_count() {
        let neighbours = Neighbours::new();
        let (one, other) = (neighbours.server(1), neighbours.server(2));
        assert!(!one.others_are_asked());
        one.is_asked(Instant::now());
        assert!(!one.others_are_asked() && other.others_are_asked());
        other.is_asked(Instant::now());
        one.is_asked(Instant::now());
        assert!(one.others_are_asked() && other.others_are_asked());
        tokio::time::advance(RECENT / 2).await;
        one.is_asked(Instant::now());
        assert!(one.others_are_asked());
        tokio::time::advance(RECENT / 2).await;
        assert!(!one.others_are_asked() && other.others_are_asked());
    }
}
