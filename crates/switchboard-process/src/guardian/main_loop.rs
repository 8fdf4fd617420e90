//! The guardian process: waits until its host is gone, then kills what the host left.
//!
//! Runs in a separate process without a runtime. Invariant: the guardian ends only process groups
//! that its host announced, while they have their own session, and processes with the host's marker.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, BufRead};

use rustix::process::{Pid, Signal};

use crate::env_marker::HostId;
use crate::procfs::{self, EnvironReader, Stat};
use crate::reaper::{self, ProcessIdentity};

/// A message from a host to its guardian, one line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The first message: the host's id.
    Host(HostId),
    /// A process group started.
    Started(Pid),
    /// A process group ended.
    Ended(Pid),
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => writeln!(f, "host {host}"),
            Self::Started(group) => writeln!(f, "started {}", group.as_raw_nonzero()),
            Self::Ended(group) => writeln!(f, "ended {}", group.as_raw_nonzero()),
        }
    }
}

impl Message {
    fn parse(line: &str) -> Option<Self> {
        let pid = |text: &str| Pid::from_raw(text.parse().ok().filter(|pid| *pid > 1)?);
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["host", host] => Some(Self::Host(host.parse().ok()?)),
            ["started", group] => Some(Self::Started(pid(group)?)),
            ["ended", group] => Some(Self::Ended(pid(group)?)),
            _ => None,
        }
    }
}

/// Runs this process as the guardian of the host that started it: waits until the host is gone,
/// ends everything that the host left except the daemons of children that keep them, and returns.
/// See [`Guardian`](crate::Guardian).
///
/// Reads stdin, which is the pipe from the host, and blocks. Call it first in `main`: it closes
/// every descriptor except the three standard streams.
pub fn run_guardian() {
    detach();
    if let Some(host) = WatchedHost::read_until_eof(io::stdin().lock()) {
        host.end_remaining();
    }
}

/// Moves to a new session and to `/`, closes inherited descriptors and ignores signals. Otherwise a
/// signal that ends the host's group or session would end the guardian first.
fn detach() {
    // Fails only for the leader of a process group, which no signal to the host's group reaches.
    let _ = rustix::process::setsid();
    ignore_signals();
    close_inherited_fds();
    let _ = std::env::set_current_dir("/");
    // A `pkill` by the host's name must not match the guardian.
    let _ = fs::write("/proc/self/comm", "mcp-guardian");
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix does not wrap signal()")]
fn ignore_signals() {
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ] {
        // SAFETY: sets the disposition to "ignore" and installs no handler.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Closes the descriptors that the host had open without close-on-exec. Linux before 5.9 lacks the
/// system call; there they stay open.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix does not wrap close_range()")]
fn close_inherited_fds() {
    let (first, last, flags) = (3, libc::c_uint::MAX, 0);
    // SAFETY: the guardian uses no descriptor except the standard streams.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, flags);
    }
}

#[cfg(not(target_os = "linux"))]
fn ignore_signals() {}

#[cfg(not(target_os = "linux"))]
fn close_inherited_fds() {}

/// The host and its process groups, as announced by messages.
#[derive(Debug, PartialEq, Eq)]
struct WatchedHost {
    host: HostId,
    groups: BTreeSet<i32>,
}

impl WatchedHost {
    /// Reads messages until the pipe closes. `None` if the host never sent its id.
    fn read_until_eof(pipe: impl BufRead) -> Option<Self> {
        let mut watched = None;
        let messages = pipe.lines().map_while(Result::ok);
        for message in messages.filter_map(|line| Message::parse(&line)) {
            match (message, &mut watched) {
                (Message::Host(host), None) => {
                    watched = Some(Self {
                        host,
                        groups: BTreeSet::new(),
                    });
                }
                (Message::Started(group), Some(watched)) => {
                    watched.groups.insert(group.as_raw_nonzero().get());
                }
                (Message::Ended(group), Some(watched)) => {
                    watched.groups.remove(&group.as_raw_nonzero().get());
                }
                _ => {}
            }
        }
        watched
    }

    fn end_remaining(&self) {
        let found_any = reaper::terminate(|| self.scan());
        // One signal kills a whole group, so no member can fork between two signals.
        for group in self.remaining_groups() {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        reaper::kill_all(|| self.scan(), found_any);
    }

    /// Finds the host's processes: members of its groups, and processes with its marker.
    fn scan(&self) -> Vec<ProcessIdentity> {
        let mut environments = EnvironReader::default();
        let mut is_marked = |pid| {
            let mut markers = environments.markers(pid);
            markers.any(|marker| marker.host == self.host && !marker.keep_daemons)
        };
        let mut is_ours =
            |pid: Pid| Stat::of(pid).is_some_and(|stat| self.is_in_group(&stat)) || is_marked(pid);
        let mut found = Vec::new();
        for pid in procfs::other_pids() {
            // Checked again after the start time is known, because the pid may have been reused.
            if is_ours(pid)
                && let Some(process) = ProcessIdentity::of(pid)
                && is_ours(pid)
            {
                found.push(process);
            }
        }
        found
    }

    /// Every child leads a session, so its group has the id of its session. A reused group id most
    /// likely belongs to a job of another session.
    fn is_in_group(&self, stat: &Stat) -> bool {
        stat.session == stat.group && self.groups.contains(&stat.group)
    }

    fn remaining_groups(&self) -> Vec<Pid> {
        let groups: BTreeSet<_> = procfs::other_pids()
            .filter_map(Stat::of)
            .filter(|stat| self.is_in_group(stat))
            .map(|stat| stat.group)
            .collect();
        groups.into_iter().filter_map(Pid::from_raw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_applied_and_invalid_lines_ignored() {
        let host = HostId::new();
        let pid = |number| Pid::from_raw(number).unwrap();
        let messages = [
            Message::Host(host),
            Message::Started(pid(10)),
            Message::Started(pid(11)),
            Message::Ended(pid(10)),
        ];
        let valid: String = messages.iter().map(ToString::to_string).collect();
        let invalid = "started 1\nstarted 0\nstarted -5\nstarted\nstarted x\n\nhost x\n";
        let watched = WatchedHost::read_until_eof(format!("{valid}{invalid}").as_bytes());
        let expected = WatchedHost {
            host,
            groups: BTreeSet::from([11]),
        };
        assert_eq!(watched, Some(expected));
        assert_eq!(WatchedHost::read_until_eof("started 10\n".as_bytes()), None);
    }
}
