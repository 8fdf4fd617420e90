//! How fast a server is listened to that talks without having been asked, or at length.
//!
//! A burst is taken at once. Whoever goes on is read slowly, so that the pipe holds it back: a
//! flood costs the one who makes it, and not the other servers. Slowly means little at a time: what
//! was taken is filled up again at once, and while a server writes a whole pipe full of lines, the
//! other servers wait for its core.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::lock;

/// How much a server may say unasked, in bytes: at once, and each second for as long as it likes.
const UNASKED_AT_ONCE: u32 = 1024 * 1024;
const UNASKED_PER_SECOND: u32 = 1024 * 1024;
/// How much of a flood is read at a time: a page, because for less a pipe does not wake its writer.
const PIECE: usize = 4 * 1024;

/// How much is read each second of those who flood, in bytes, where they are several.
const FLOODS_PER_SECOND: u32 = 256 * 1024;
/// For so long one who flooded counts among them.
const REMEMBERED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: f64,
    burst: f64,
    /// How many bytes may still come at once.
    left: f64,
    counted: Instant,
    /// In which time it was last counted among those who flood.
    flooded: u64,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u32, burst: u32) -> Self {
        Self {
            bytes_per_second: bytes_per_second.into(),
            burst: burst.into(),
            left: burst.into(),
            counted: Instant::now(),
            flooded: 0,
        }
    }

    /// For what a server says unasked.
    pub(crate) fn unasked() -> Self {
        Self::new(UNASKED_PER_SECOND, UNASKED_AT_ONCE)
    }

    /// How much is read next, if this much could be: little of a flood.
    pub(crate) fn piece(&mut self, most: usize) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        if self.left >= most as f64 {
            return most;
        }
        self.earn();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and not large"
        )]
        most.min(PIECE.max(self.left as usize))
    }

    /// Counts what came in, and says how long to wait before reading on.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Duration> {
        if bytes == 0 {
            return None;
        }
        self.earn();
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let bytes = bytes as f64;
        self.left -= bytes;
        let overdrawn = -self.left / self.bytes_per_second;
        (overdrawn > 0.0).then(|| Duration::from_secs_f64(overdrawn))
    }

    /// Nothing is earned in this time.
    fn wait(&mut self, pause: Duration) {
        self.left = -pause.as_secs_f64() * self.bytes_per_second;
    }

    fn earn(&mut self) {
        let now = Instant::now();
        let earned = (now - self.counted).as_secs_f64() * self.bytes_per_second;
        self.counted = now;
        self.left = (self.left + earned).min(self.burst);
    }
}

/// What the servers of a host that flood it by their pipes share: one may go on at its own pace, and
/// several get together no more than the slower of them alone, because whatever is taken of them they
/// write again, on the cores of everybody else. Nobody waits for what another says at length: no more than
/// a piece at a time is counted here.
#[derive(Clone, Debug)]
pub(crate) struct Floods(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    pace: Pace,
    /// Which time it is, and when it began.
    time: u64,
    began: Instant,
    /// How many flood in this time, and how many did in the last.
    now: usize,
    before: usize,
}

impl Floods {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Shared {
            pace: Pace::new(FLOODS_PER_SECOND, 0),
            time: 1,
            began: Instant::now(),
            now: 0,
            before: 0,
        })))
    }

    /// Counts what came in at a server's own pace, and says how long to wait before reading on.
    pub(crate) fn take(&self, own: &mut Pace, bytes: usize) -> Option<Duration> {
        let pause = own.take(bytes)?;
        let mut shared = lock(&self.0);
        shared.count(own);
        let is_alone = shared.now.max(shared.before) <= 1;
        if is_alone {
            return Some(pause);
        }
        let of_all = shared.pace.take(bytes.min(PIECE));
        let pause = of_all.map_or(pause, |of_all| of_all.max(pause));
        own.wait(pause);
        Some(pause)
    }
}

impl Shared {
    fn count(&mut self, own: &mut Pace) {
        let passed = self.began.elapsed();
        if passed >= REMEMBERED {
            let is_next = passed < 2 * REMEMBERED;
            self.before = if is_next { self.now } else { 0 };
            self.now = 0;
            self.time += 1;
            self.began = Instant::now();
        }
        if own.flooded != self.time {
            own.flooded = self.time;
            self.now += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_what_goes_on_waits() {
        let mut pace = Pace::new(64 * 1024, 100_000);
        assert_eq!(pace.piece(8_000), 8_000);
        assert_eq!(pace.take(100_000), None);
        assert_eq!(pace.piece(8_000), 4_096);
        assert_eq!(pace.take(32 * 1024), Some(Duration::from_millis(500)));
        assert_eq!(pace.take(32 * 1024), Some(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace.piece(8_000), 8_000);
        assert_eq!(pace.take(100_000), None);
        assert_eq!(pace.take(64 * 1024), Some(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_floods_alone_waits_for_nobody_and_many_wait_for_each_other() {
        let floods = Floods::new();
        let loud = || Pace::new(4 * FLOODS_PER_SECOND, 1_000);
        let (mut one, mut other, mut calm) = (loud(), loud(), loud());
        let time =
            |pieces| Duration::from_secs_f64(pieces * 4_096.0 / f64::from(FLOODS_PER_SECOND));
        assert_eq!(floods.take(&mut one, 1_000), None);
        assert_eq!(floods.take(&mut other, 1_000), None);
        assert_eq!(floods.take(&mut one, PIECE), Some(time(0.25)));
        assert_eq!(floods.take(&mut other, PIECE), Some(time(1.0)));
        assert_eq!(floods.take(&mut one, PIECE), Some(time(2.0)));
        assert_eq!(floods.take(&mut calm, 1_000), None);
        tokio::time::advance(2 * REMEMBERED).await;
        assert_eq!(floods.take(&mut one, 1_000), None);
        assert_eq!(floods.take(&mut one, PIECE), Some(time(0.25)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_says_at_length_is_waited_for_by_nobody_else() {
        let floods = Floods::new();
        let (mut long, mut chatty) = (Pace::unasked(), Pace::unasked());
        let line = 16 * 1024 * 1024;
        assert_eq!(floods.take(&mut long, line), Some(Duration::from_secs(15)));
        let burst = UNASKED_AT_ONCE as usize;
        let pause = floods.take(&mut chatty, burst + 1).unwrap();
        assert!(pause < Duration::from_millis(20), "{pause:?}");
    }
}
