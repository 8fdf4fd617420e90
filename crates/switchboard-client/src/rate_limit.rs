//! Rate limit for the bytes that a server sends unsolicited.
//!
//! A token bucket. A burst is read at full speed. After it the reader takes small chunks and pauses, so
//! that the pipe fills up and blocks the server that floods it. Responses, and progress that a caller
//! asked for, are not charged: they are always read at full speed.

use std::time::Duration;

use tokio::time::Instant;

/// Unsolicited bytes of one server that are read at full speed, and per second after that.
const UNSOLICITED_BURST_BYTES: u32 = 1024 * 1024;
const UNSOLICITED_BYTES_PER_SECOND: u32 = 1024 * 1024;
/// Chunk size while throttled. One page: a pipe does not wake its writer for less free space, and a
/// larger chunk lets the flooding server run longer at a time on a core that the other servers need.
const THROTTLED_READ_BYTES: usize = 4 * 1024;

#[derive(Debug)]
pub(crate) struct RateLimiter {
    bytes_per_second: f64,
    burst: f64,
    /// Bytes that may be read without a pause. Not less than minus `bytes_per_second`, so that one large
    /// message delays the server's next response by at most a second.
    tokens: f64,
    refilled_at: Instant,
}

impl RateLimiter {
    pub(crate) fn new(bytes_per_second: u32, burst: u32) -> Self {
        Self {
            bytes_per_second: bytes_per_second.into(),
            burst: burst.into(),
            tokens: burst.into(),
            refilled_at: Instant::now(),
        }
    }

    /// The limit on notifications, requests and stray output of a server.
    pub(crate) fn unsolicited() -> Self {
        Self::new(UNSOLICITED_BYTES_PER_SECOND, UNSOLICITED_BURST_BYTES)
    }

    /// How many bytes to read next: `max`, or a small chunk while throttled.
    pub(crate) fn read_limit(&mut self, max: usize) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        if self.tokens >= max as f64 {
            return max;
        }
        self.refill();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates, and a burst fits"
        )]
        max.min(THROTTLED_READ_BYTES.max(self.tokens as usize))
    }

    /// Charges `bytes` and returns how long to pause before the next read.
    pub(crate) fn consume(&mut self, bytes: usize) -> Option<Duration> {
        if bytes == 0 {
            return None;
        }
        self.refill();
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let bytes = bytes as f64;
        self.tokens = (self.tokens - bytes).max(-self.bytes_per_second);
        let overdrawn = -self.tokens / self.bytes_per_second;
        (overdrawn > 0.0).then(|| Duration::from_secs_f64(overdrawn))
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let earned = (now - self.refilled_at).as_secs_f64() * self.bytes_per_second;
        self.refilled_at = now;
        self.tokens = (self.tokens + earned).min(self.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_is_free_and_the_rest_is_paced() {
        let mut limiter = RateLimiter::new(64 * 1024, 100_000);
        assert_eq!(limiter.read_limit(8_000), 8_000);
        assert_eq!(limiter.consume(100_000), None);
        assert_eq!(limiter.read_limit(8_000), 4_096);
        assert_eq!(limiter.consume(32 * 1024), Some(Duration::from_millis(500)));
        assert_eq!(limiter.consume(32 * 1024), Some(Duration::from_secs(1)));
        assert_eq!(
            limiter.consume(16 * 1024 * 1024),
            Some(Duration::from_secs(1))
        );
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(limiter.read_limit(8_000), 8_000);
        assert_eq!(limiter.consume(100_000), None);
        assert_eq!(limiter.consume(64 * 1024), Some(Duration::from_secs(1)));
    }
}
