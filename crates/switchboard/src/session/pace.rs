//! How fast a server is listened to that talks without having been asked, or at length.
//!
//! A burst is taken at once. Whoever goes on is read slowly, so that the pipe holds it back: a
//! flood costs the one who makes it, and not the other servers.

use std::time::Duration;

use tokio::time::Instant;

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
        (self.left < 0.0).then(|| Duration::from_secs_f64(-self.left / self.bytes_per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_what_goes_on_waits() {
        let mut pace = Pace::new(1_000, 5_000);
        assert_eq!(pace.take(5_000), None);
        assert_eq!(pace.take(500), Some(Duration::from_millis(500)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace.take(5_000), None);
        assert_eq!(pace.take(1_000), Some(Duration::from_secs(1)));
    }
}
