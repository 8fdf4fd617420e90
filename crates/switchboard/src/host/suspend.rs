//! Detects that the machine was suspended.
//!
//! During suspend, timers stop and connections to remote servers can break without notice, so the
//! host checks the health of remote servers after each resume. Invariant: a busy runtime is not
//! mistaken for a suspended machine.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum suspend time that triggers health checks.
const MIN_SUSPEND: Duration = Duration::from_secs(2);

/// Returns how long the machine was suspended since it booted.
pub(super) type SuspendClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Increments `resumed` whenever the machine was suspended, until `stop` is cancelled.
pub(super) async fn watch_for_suspend(
    time_suspended: SuspendClock,
    resumed: watch::Sender<u64>,
    stop: CancellationToken,
) {
    let mut before = time_suspended();
    let watching = async {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let now = time_suspended();
            if now.saturating_sub(before) >= MIN_SUSPEND {
                tracing::info!("the machine was suspended: checking remote servers");
                resumed.send_modify(|count| *count += 1);
            }
            before = now;
        }
    };
    stop.run_until_cancelled(watching).await;
}

/// The time since boot minus the time that the machine ran. `CLOCK_BOOTTIME` continues during
/// suspend, `CLOCK_MONOTONIC` does not.
#[cfg(target_os = "linux")]
pub(super) fn time_suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
        let time = clock_gettime(clock);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
    };
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

/// Not implemented on this platform. The next call or the periodic health check detects a dead
/// connection.
#[cfg(not(target_os = "linux"))]
pub(super) fn time_suspended() -> Duration {
    Duration::ZERO
}
