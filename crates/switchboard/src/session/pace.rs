//! How fast a server is listened to that talks without having been asked, or at length.
//!
//! A burst is taken at once. Whoever goes on is read slowly, so that the pipe holds it back: a
//! flood costs the one who makes it, and not the other servers. Slowly means seldom: it is waking up
//! that costs, on both sides of the pipe.

use std::time::Duration;

use tokio::time::Instant;

/// How much a server may say unasked, in bytes: at once, and each second for as long as it likes.
const UNASKED_AT_ONCE: u32 = 1024 * 1024;
const UNASKED_PER_SECOND: u32 = 1024 * 1024;
/// Whoever has to wait may then go on for this part of a second.
const STRIDE: f64 = 1.0 / 32.0;

#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: f64,
    burst: f64,
    /// How many bytes may still come at once.
    left: f64,
    counted: Instant,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u32, burst: u32) -> Self {
        Self {
            bytes_per_second: bytes_per_second.into(),
            burst: burst.into(),
            left: burst.into(),
            counted: Instant::now(),
        }
    }

    /// For what a server says unasked.
    pub(crate) fn unasked() -> Self {
        Self::new(UNASKED_PER_SECOND, UNASKED_AT_ONCE)
    }

    /// Counts what came in, and says how long to wait before reading on.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Duration> {
        if bytes == 0 {
            return None;
        }
        let now = Instant::now();
        let earned = (now - self.counted).as_secs_f64() * self.bytes_per_second;
        self.counted = now;
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let bytes = bytes as f64;
        self.left = (self.left + earned).min(self.burst) - bytes;
        let overdrawn = -self.left / self.bytes_per_second;
        (overdrawn > 0.0).then(|| Duration::from_secs_f64(overdrawn + STRIDE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_what_goes_on_waits() {
        let stride = Duration::from_secs_f64(STRIDE);
        let mut pace = Pace::new(3_200, 5_000);
        assert_eq!(pace.take(5_000), None);
        assert_eq!(pace.take(1_600), Some(Duration::from_millis(500) + stride));
        tokio::time::advance(Duration::from_millis(500) + stride).await;
        assert_eq!(pace.take(100), None, "what the stride is worth");
        assert!(pace.take(100).is_some());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace.take(5_000), None);
        assert_eq!(pace.take(3_200), Some(Duration::from_secs(1) + stride));
    }
}
