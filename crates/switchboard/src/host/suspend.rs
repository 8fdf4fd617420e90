//! Notices that the machine has slept.
//!
//! While it sleeps, our timers stand still and the connections of remote servers die unseen; so all
//! of them are looked at when it is awake again. Invariant: only time that passed while nothing could
//! run counts as sleep.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often one looks.
const LOOK: Duration = Duration::from_secs(5);
/// Shorter naps do not count.
const NAP: Duration = Duration::from_secs(2);

/// How long the machine has slept since it was started.
pub(super) type Asleep = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Tells `awake` whenever the machine has slept, until it is stopped.
pub(super) async fn watch(slept: Asleep, awake: watch::Sender<u64>, stop: CancellationToken) {
    let mut before = slept();
    let watching = async {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = slept();
            if now.saturating_sub(before) >= NAP {
                tracing::info!("the machine has slept: remote servers are looked after");
                awake.send_modify(|count| *count += 1);
            }
            before = now;
        }
    };
    stop.run_until_cancelled(watching).await;
}

/// What the system's clocks say: one of them runs on while the machine sleeps.
#[cfg(target_os = "linux")]
pub(super) fn by_the_clocks() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
        let time = clock_gettime(clock);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
    };
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

/// Not known here: the next call, or the next look at a silent server, finds out.
#[cfg(not(target_os = "linux"))]
pub(super) fn by_the_clocks() -> Duration {
    Duration::ZERO
}
