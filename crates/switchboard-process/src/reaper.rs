//! Finds, terminates and kills processes by pid and start time, never by pid alone.
//!
//! The caller passes a *scan* that lists the processes to end; it is repeated until it finds no new
//! ones. Blocking, because the guardian and `Drop` have no runtime. Invariant: a signal reaches the
//! process that the scan found, or no process. The signal is sent through a pidfd, and the start
//! time is compared again after the pidfd was opened. Linux before 5.3 has no pidfd; there, the pid
//! could be reused between the comparison and the signal.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::env_marker::EnvMarker;
use crate::procfs::{self, EnvironReader, Stat};

/// How long the processes that a scan finds may take to exit after SIGTERM, before SIGKILL.
const TERM_GRACE: Duration = Duration::from_millis(250);
/// Maximum wait for a process to disappear after SIGKILL. Only a stuck kernel takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two checks whether processes are gone.
const POLL: Duration = Duration::from_millis(5);
/// Maximum number of scans. If the last scan still finds new processes, processes that they fork
/// later survive.
const MAX_SCANS: usize = 32;
/// After this many scans in a row without a new process, scanning ends.
const QUIET_SCANS: usize = 3;

/// A process, identified by pid and start time. A pid alone may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: Pid,
    /// In clock ticks since boot.
    pub(crate) start: u64,
}

impl ProcessIdentity {
    /// `None` if the process has exited.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| !stat.has_exited())?;
        Some(Self {
            pid,
            start: stat.start,
        })
    }

    pub(crate) fn is_running(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Signals exactly this process. Does nothing if it has exited.
    #[cfg(target_os = "linux")]
    pub(crate) fn signal(&self, signal: Signal) {
        use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
        // Errors are ignored: the process has exited, or this user may not signal it.
        let _ = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            Ok(pidfd) if self.is_running() => pidfd_send_signal(pidfd, signal),
            // No pidfd before Linux 5.3: the pid could be reused between the check and the signal.
            Err(_) if self.is_running() => kill_process(self.pid, signal),
            _ => Ok(()),
        };
    }

    /// Without `/proc` no process is ever found.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "same signature as on Linux")]
    pub(crate) fn signal(&self, _: Signal) {}
}

/// All processes with a marker for which `select` returns a value, with that value.
pub(crate) fn find_marked<T>(
    select: impl Fn(&EnvMarker) -> Option<T>,
) -> Vec<(ProcessIdentity, T)> {
    let mut environments = EnvironReader::default();
    let mut selected = |pid| environments.markers(pid).find_map(|marker| select(&marker));
    let mut found = Vec::new();
    for pid in procfs::other_pids() {
        if selected(pid).is_none() {
            continue;
        }
        // The pid may have been reused after the marker was read. `ProcessIdentity::of` reads the
        // start time; a marker that is read after it belongs to the same process.
        if let Some(process) = ProcessIdentity::of(pid)
            && let Some(value) = selected(pid)
        {
            found.push((process, value));
        }
    }
    found
}

/// Sends SIGTERM to the processes that `scan` finds, and waits until they exit, at most for the
/// grace period. Returns whether the scan found any.
pub(crate) fn terminate(scan: impl Fn() -> Vec<ProcessIdentity>) -> bool {
    let processes = scan();
    for process in &processes {
        process.signal(Signal::TERM);
        // A stopped process handles SIGTERM only after SIGCONT.
        process.signal(Signal::CONT);
    }
    wait_for_exit(&processes, TERM_GRACE);
    !processes.is_empty()
}

/// Kills the processes that `scan` finds and waits until they are gone. With `expect_survivors`,
/// one empty scan is not trusted.
pub(crate) fn kill_all(scan: impl Fn() -> Vec<ProcessIdentity>, expect_survivors: bool) {
    let killed = kill_until_quiet(&scan, expect_survivors);
    if !killed.is_empty() {
        wait_for_exit(&killed, KILL_TIMEOUT);
        // If the killed processes are our children, the scan reaps them.
        scan();
    }
}

/// Ends the processes that `scan` finds: SIGTERM, grace period, SIGKILL. For callers whose own scan
/// found processes.
pub(crate) fn terminate_then_kill(scan: impl Fn() -> Vec<ProcessIdentity>) {
    terminate(&scan);
    kill_all(scan, true);
}

/// Kills until scans find no new processes. Killed processes may show up in scans for a moment. A
/// process that keeps forking can escape one or two scans, so the scan is repeated once there was a
/// process.
fn kill_until_quiet(
    scan: &impl Fn() -> Vec<ProcessIdentity>,
    expect_survivors: bool,
) -> Vec<ProcessIdentity> {
    let mut killed = Vec::new();
    let mut known = HashSet::new();
    let mut quiet_scans = 0;
    for _ in 0..MAX_SCANS {
        let new: Vec<_> = scan()
            .into_iter()
            .filter(|process| known.insert(*process))
            .collect();
        quiet_scans = if new.is_empty() { quiet_scans + 1 } else { 0 };
        let found_none = !expect_survivors && killed.is_empty() && new.is_empty();
        if found_none || quiet_scans == QUIET_SCANS {
            break;
        }
        for process in &new {
            process.signal(Signal::KILL);
        }
        killed.extend(new);
    }
    killed
}

fn wait_for_exit(processes: &[ProcessIdentity], at_most: Duration) {
    wait(
        || processes.iter().any(ProcessIdentity::is_running),
        at_most,
    );
}

/// Waits while `is_alive` returns true for processes that were killed, up to a limit.
pub(crate) fn wait_while(is_alive: impl Fn() -> bool) {
    wait(is_alive, KILL_TIMEOUT);
}

#[expect(
    clippy::disallowed_methods,
    reason = "runs on threads and in processes that have no runtime"
)]
fn wait(is_alive: impl Fn() -> bool, at_most: Duration) {
    let end = Instant::now() + at_most;
    while is_alive() && Instant::now() < end {
        std::thread::sleep(POLL);
    }
}
