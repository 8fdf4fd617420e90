//! What this process holds: descriptors, threads, tasks, children, memory.
//!
//! Counts only; what came and went in between is not seen. Needs Linux's `/proc`.

use std::fs;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// How long what was let go may take to be gone, in real time.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait between two looks.
const POLL: Duration = Duration::from_millis(5);
/// How much more memory may be in use after any number of rounds.
const GROWTH_KIB: u64 = 5 * 1024;

/// What can be counted exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    descriptors: usize,
    threads: usize,
    tasks: usize,
    /// Children of this process, zombies included.
    children: usize,
}

impl Census {
    pub(crate) fn take() -> Self {
        Self {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            tasks: Handle::current().metrics().num_alive_tasks(),
            children: children(),
        }
    }

    /// Waits until nothing of earlier rounds is under way any more, and counts then. `self` is from
    /// before the first round; a host that is still there keeps the thread that starts its children.
    pub(crate) async fn once_quiet(self) -> Self {
        let is_quiet = |now: &Self| {
            now.children == 0 && now.tasks == self.tasks && now.threads <= self.threads + 1
        };
        let now = poll(is_quiet).await;
        assert!(is_quiet(&now), "it does not settle: {self:?}, now {now:?}");
        now
    }

    /// Waits until there is no more of anything than there was.
    pub(crate) async fn wait_for_return(self) {
        let is_back = |now: &Self| {
            now.descriptors <= self.descriptors
                && now.threads <= self.threads
                && now.tasks <= self.tasks
                && now.children <= self.children
        };
        let now = poll(is_back).await;
        assert!(is_back(&now), "something is left: {self:?}, now {now:?}");
    }
}

/// Looks again and again, in real time even where the runtime's clock is paused. Returns the last
/// look, whatever it showed.
async fn poll(done: impl Fn(&Census) -> bool) -> Census {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = Census::take();
        if done(&now) || Instant::now() > deadline {
            return now;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A look at the memory in use, to compare later ones with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    resident_kib: u64,
}

impl Memory {
    pub(crate) fn look() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.unwrap().split_whitespace().nth(1).unwrap();
        Self {
            resident_kib: number.parse().unwrap(),
        }
    }

    pub(crate) fn assert_grown_little(self) {
        let now = Self::look().resident_kib;
        println!("{} KiB resident before, {now} after", self.resident_kib);
        assert!(
            now <= self.resident_kib + GROWTH_KIB,
            "memory grew from {} to {now} KiB",
            self.resident_kib
        );
    }
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// How many processes name this one as their parent.
fn children() -> usize {
    let me = std::process::id().to_string();
    let is_mine = |stat: &String| {
        // The name stands in parentheses and may hold anything; then come the state and the parent.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1));
        parent == Some(me.as_str())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(is_mine)
        .count()
}
