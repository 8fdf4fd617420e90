//! Limits how fast unsolicited output of a server is read.
//!
//! Notifications, requests, stray output and responses to no request are unsolicited. Responses to
//! requests are not, and neither is progress that a caller asked for. Without the rate limit, a
//! server that floods the client with notifications would take CPU time from the other servers.
//!
//! Each stream from a server has its own token bucket; one token is one byte. The bucket
//! starts full and is refilled at a constant rate. While it holds tokens, the stream is read at
//! full speed. When it is empty, [`RateLimiter::consume`] returns a pause and
//! [`RateLimiter::read_limit`] asks for small reads. The reader reads nothing during the pause, so
//! the pipe or socket fills up and blocks the server. No byte is dropped. Responses behind the
//! unsolicited output on the same stream wait, too.
//!
//! Invariant: one message pauses the stream for at most a second, however long it is.

use std::time::Duration;

use tokio::time::Instant;

/// Capacity of the token bucket. After a quiet time, this many unsolicited bytes are read at full
/// speed.
const UNSOLICITED_BURST_BYTES: u32 = 1024 * 1024;
/// Refill rate of the bucket. At 1 MiB/s, ten flooding servers raised the p99 latency of calls to 40
/// other servers by half (two cores, `just bench "hostile: notifications"`).
const UNSOLICITED_BYTES_PER_SECOND: u32 = 640 * 1024;
/// Size of a read while the token bucket is empty. A smaller size than one page does not work: a
/// full pipe wakes its writer only when a page is free. A larger size would let the flooding server
/// run longer at a time.
const THROTTLED_READ_BYTES: usize = 4 * 1024;

/// The token bucket of one stream.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// Refill rate of the bucket.
    bytes_per_second: f64,
    /// Capacity of the bucket, in bytes.
    burst: f64,
    /// How many unsolicited bytes may be read without a pause. Negative after a message with more
    /// bytes than the bucket held. At least `-bytes_per_second`, so that a pause takes at most one
    /// second.
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

    /// A limiter for one stream of messages, with the capacity and rate for unsolicited messages.
    /// Stderr has its own rate.
    pub(crate) fn unsolicited() -> Self {
        Self::new(UNSOLICITED_BYTES_PER_SECOND, UNSOLICITED_BURST_BYTES)
    }

    /// Maximum size of the next read: `max`, or the number of tokens in the bucket if that is
    /// smaller. An empty bucket still allows [`THROTTLED_READ_BYTES`].
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

    /// Takes tokens for unsolicited bytes that were read. If the bucket is overdrawn afterwards,
    /// returns how long to pause before the next read.
    pub(crate) fn consume(&mut self, bytes: usize) -> Option<Duration> {
        if bytes == 0 {
            return None;
        }
        self.refill();
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let bytes = bytes as f64;
        self.tokens = (self.tokens - bytes).max(-self.bytes_per_second);
        let seconds_until_refilled = -self.tokens / self.bytes_per_second;
        (seconds_until_refilled > 0.0).then(|| Duration::from_secs_f64(seconds_until_refilled))
    }

    /// Takes tokens for unsolicited bytes that were read, and sleeps if the bucket is overdrawn.
    pub(crate) async fn throttle(&mut self, bytes: usize) {
        if let Some(pause) = self.consume(bytes) {
            tokio::time::sleep(pause).await;
        }
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
    async fn burst_is_free_and_the_rest_is_throttled() {
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
