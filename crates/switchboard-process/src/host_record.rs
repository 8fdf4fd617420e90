//! The identity of a host process as text, for cleaning up after a crash.
//!
//! A guardian can be killed, too. So a program may write a [`HostRecord`] of each of its hosts to a
//! file; its next start reads the records of hosts that are gone and kills their remaining
//! processes. This module reads and writes no such files. Invariant: only processes with the marker
//! of a host that is certainly gone are killed.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use rustix::process::Pid;

use crate::env_marker::HostId;
use crate::procfs::{self, Stat};
use crate::reaper;

/// A host: its id, its process, and the boot and pid namespace in which the pid is valid.
///
/// The `Display` form is one line that [`FromStr`] parses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRecord {
    host: HostId,
    pid: Pid,
    /// Start time of the process, in clock ticks since boot.
    start: u64,
    /// Changes with every boot of the machine.
    boot_id: String,
    /// The pid namespace of the process.
    namespace: String,
}

/// Whether the host of a [`HostRecord`] is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostLiveness {
    /// The host is running.
    Running,
    /// The host is gone; its children may still be running.
    Gone,
    /// The host ran before the machine was rebooted. Nothing remains of it.
    BeforeReboot,
    /// The state of the host is unknown, because the host belongs to another pid namespace or
    /// `/proc` does not show this one.
    OtherNamespace,
}

impl HostRecord {
    /// The record of the host with this id in this process.
    pub fn of_this_process(host: HostId) -> io::Result<Self> {
        let pid = rustix::process::getpid();
        let stat = Stat::of(pid).filter(|_| procfs::shows_our_namespace());
        let stat = stat.ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        Ok(Self {
            host,
            pid,
            start: stat.start,
            boot_id: boot_id()?,
            namespace: pid_namespace()?,
        })
    }

    /// The id of the host.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Checks whether the host is still running.
    pub fn liveness(&self) -> HostLiveness {
        let (Ok(boot_id), Ok(namespace)) = (boot_id(), pid_namespace()) else {
            return HostLiveness::OtherNamespace;
        };
        if boot_id != self.boot_id {
            return HostLiveness::BeforeReboot;
        }
        if namespace != self.namespace || !procfs::shows_our_namespace() {
            return HostLiveness::OtherNamespace;
        }
        let is_host = |stat: Stat| stat.start == self.start && !stat.has_exited();
        if Stat::of(self.pid).is_some_and(is_host) {
            HostLiveness::Running
        } else {
            HostLiveness::Gone
        }
    }
}

/// Ends the processes left behind by hosts that are [gone](HostLiveness::Gone): SIGTERM, a grace
/// period, SIGKILL. Daemons of children that keep them survive. Blocks. Returns the number of
/// processes that were found.
pub fn kill_leftovers(records: &[HostRecord]) -> usize {
    let gone: Vec<_> = records
        .iter()
        .filter(|record| record.liveness() == HostLiveness::Gone)
        .collect();
    if gone.is_empty() {
        return 0;
    }
    let scan = || {
        let leftovers = reaper::find_marked(|marker| {
            let record = gone.iter().find(|record| record.host == marker.host);
            record.filter(|_| !marker.keep_daemons).copied()
        });
        // A process cannot be older than the host that started it.
        let started_by_host = leftovers
            .into_iter()
            .filter(|(process, record)| process.start >= record.start);
        started_by_host
            .map(|(process, _)| process)
            .collect::<Vec<_>>()
    };
    let count = scan().len();
    if count > 0 {
        reaper::terminate_then_kill(scan);
    }
    count
}

fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

fn pid_namespace() -> io::Result<String> {
    let link = fs::read_link("/proc/self/ns/pid")?;
    Ok(link.to_string_lossy().into_owned())
}

impl fmt::Display for HostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            pid,
            start,
            boot_id,
            namespace,
        } = self;
        let pid = pid.as_raw_nonzero();
        write!(f, "{host} {pid} {start} {boot_id} {namespace}")
    }
}

/// The text is not a [`HostRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a host record")]
pub struct InvalidHostRecord;

impl FromStr for HostRecord {
    type Err = InvalidHostRecord;

    fn from_str(text: &str) -> Result<Self, InvalidHostRecord> {
        let fields: Vec<_> = text.split(' ').collect();
        let [host, pid, start, boot_id, namespace] = fields[..] else {
            return Err(InvalidHostRecord);
        };
        let pid = pid.parse().ok().filter(|pid| *pid > 0);
        Ok(Self {
            host: host.parse().map_err(|_| InvalidHostRecord)?,
            pid: pid.and_then(Pid::from_raw).ok_or(InvalidHostRecord)?,
            start: start.parse().map_err(|_| InvalidHostRecord)?,
            boot_id: boot_id.to_owned(),
            namespace: namespace.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_record() -> HostRecord {
        HostRecord::of_this_process(HostId::new()).unwrap()
    }

    #[test]
    fn record_round_trips_and_rejects_invalid_text() {
        let record = own_record();
        assert_eq!(record.to_string().parse(), Ok(record));
        for invalid in ["", "a b c d e", "1 2 3 4 5 6"] {
            assert_eq!(invalid.parse::<HostRecord>(), Err(InvalidHostRecord));
        }
        let negative = own_record().to_string().replacen(' ', " -", 1);
        assert_eq!(negative.parse::<HostRecord>(), Err(InvalidHostRecord));
    }

    #[test]
    fn host_runs_only_with_same_start_boot_and_namespace() {
        let own = own_record();
        assert_eq!(own.liveness(), HostLiveness::Running);
        let reused_pid = HostRecord {
            start: own.start + 1,
            ..own.clone()
        };
        assert_eq!(reused_pid.liveness(), HostLiveness::Gone);
        let rebooted = HostRecord {
            boot_id: "another".to_owned(),
            ..own.clone()
        };
        assert_eq!(rebooted.liveness(), HostLiveness::BeforeReboot);
        let other_namespace = HostRecord {
            namespace: "pid:[1]".to_owned(),
            ..own
        };
        assert_eq!(other_namespace.liveness(), HostLiveness::OtherNamespace);
    }
}
