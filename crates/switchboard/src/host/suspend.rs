//! Detects that the machine was suspended.
//!
//! During suspend, timers stop, and connections to remote servers can break without notice. The
//! host therefore checks remote servers after each resume. This module only detects the resume.
//! Invariant: a runtime that is too busy to run timers in time is not mistaken for a suspended
//! machine.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum suspend time within one [`CHECK_INTERVAL`] that counts as a suspend.
const MIN_SUSPEND: Duration = Duration::from_secs(2);

/// A function that returns how long the machine was suspended in total since it booted.
pub(super) type SuspendClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Increments `resumed` after each suspend of at least [`MIN_SUSPEND`], until `stop` is cancelled.
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

/// Returns how long the machine was suspended in total since it booted: `CLOCK_BOOTTIME`, which
/// continues during suspend, minus `CLOCK_MONOTONIC`, which does not.
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

/// Returns zero, because the suspend time is not known on this platform. A dead connection is
/// detected by the next call or by the periodic ping.
#[cfg(not(target_os = "linux"))]
pub(super) fn time_suspended() -> Duration {
    Duration::ZERO
}
