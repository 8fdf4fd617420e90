//! Resources of this process: descriptors, threads, tasks, children, memory.
//!
//! A reading counts the resources that exist at that moment. It works only on Linux, because it
//! uses `/proc`.

use std::fs;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// Maximum real time until the counts reach the expected values.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two readings.
const POLL: Duration = Duration::from_millis(5);
/// Maximum growth of the resident memory, independent of the number of rounds.
const MAX_GROWTH_KIB: u64 = 5 * 1024;

/// Resources that can be counted exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceCounts {
    descriptors: usize,
    threads: usize,
    tasks: usize,
    /// Children of this process, zombies included.
    children: usize,
}

impl ResourceCounts {
    pub(crate) fn read() -> Self {
        Self {
            descriptors: count_entries("/proc/self/fd"),
            threads: count_entries("/proc/self/task"),
            tasks: Handle::current().metrics().num_alive_tasks(),
            children: count_children(),
        }
    }

    /// Waits until the tasks and children of the warm-up rounds have ended, and returns the counts
    /// after that. `self` holds the counts from before the first round. One additional thread is
    /// allowed, because a running host keeps a thread that spawns children.
    pub(crate) async fn wait_until_settled(self) -> Self {
        let is_settled = |now: &Self| {
            now.children == 0 && now.tasks == self.tasks && now.threads <= self.threads + 1
        };
        let now = poll(is_settled).await;
        assert!(
            is_settled(&now),
            "resources do not settle: {self:?}, now {now:?}"
        );
        now
    }

    /// Waits until no count is greater than the same count in `self`.
    pub(crate) async fn wait_until_released(self) {
        let is_released = |now: &Self| {
            now.descriptors <= self.descriptors
                && now.threads <= self.threads
                && now.tasks <= self.tasks
                && now.children <= self.children
        };
        let now = poll(is_released).await;
        assert!(is_released(&now), "resources leaked: {self:?}, now {now:?}");
    }
}

/// Reads the counts until `done` holds or the timeout expires, and returns the last reading. The
/// timeout is in real time, even if the runtime's clock is paused.
async fn poll(done: impl Fn(&ResourceCounts) -> bool) -> ResourceCounts {
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    loop {
        let now = ResourceCounts::read();
        if done(&now) || Instant::now() > deadline {
            return now;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The resident memory at one point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    resident_kib: u64,
}

impl Memory {
    pub(crate) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.unwrap().split_whitespace().nth(1).unwrap();
        Self {
            resident_kib: number.parse().unwrap(),
        }
    }

    pub(crate) fn assert_grown_little(self) {
        let now = Self::read().resident_kib;
        println!("{} KiB resident before, {now} after", self.resident_kib);
        assert!(
            now <= self.resident_kib + MAX_GROWTH_KIB,
            "memory grew from {} to {now} KiB",
            self.resident_kib
        );
    }
}

fn count_entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Number of processes whose parent is this process.
fn count_children() -> usize {
    let own_pid = std::process::id().to_string();
    let is_child = |stat: &String| {
        // The command name is in parentheses and may contain any character. After it come the state
        // and the parent pid.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1));
        parent == Some(own_pid.as_str())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(is_child)
        .count()
}
