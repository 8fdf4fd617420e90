//! What a guardian does: wait for the end of its host, and end what the host left.
//!
//! Runs in a process of its own, without a runtime and without anything else of this crate.
//! Invariant: it touches only groups that it was told of, while they belong to the host's session,
//! and processes that carry the host's mark.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, BufRead};

use rustix::process::{Pid, Signal};

use crate::transport::procfs::{self, Environments, Stat};
use crate::transport::sweep::{self, Sighting};
use crate::transport::tag::HostTag;

/// What a host says to its guardian, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// First of all: the host's tag, and the session that it and the groups of its children are in.
    Host(HostTag, i32),
    Began(Pid),
    Ended(Pid),
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(tag, session) => writeln!(f, "host {tag} {session}"),
            Self::Began(group) => writeln!(f, "began {}", group.as_raw_nonzero()),
            Self::Ended(group) => writeln!(f, "ended {}", group.as_raw_nonzero()),
        }
    }
}

impl Message {
    fn parse(line: &str) -> Option<Self> {
        let pid = |text: &str| Pid::from_raw(text.parse().ok().filter(|pid| *pid > 1)?);
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["host", tag, session] => Some(Self::Host(tag.parse().ok()?, session.parse().ok()?)),
            ["began", group] => Some(Self::Began(pid(group)?)),
            ["ended", group] => Some(Self::Ended(pid(group)?)),
            _ => None,
        }
    }
}

/// The session of this process, 0 if its leader is out of sight.
pub(super) fn own_session() -> i32 {
    Stat::of(rustix::process::getpid()).map_or(0, |stat| stat.session)
}

/// Stands guard over the host that started this process: waits until it is gone, ends everything
/// that it left behind, and comes back. See [`Guardian`](super::Guardian).
///
/// Reads stdin, which is the pipe to the host, and blocks. To be called before anything else: a
/// guardian is small, holds nothing, and closes every descriptor above the three standard ones.
pub fn keep_watch() {
    keep_watch_on(io::stdin().lock());
}

/// As [`keep_watch`], where the pipe is behind stdin already, and read in another way.
pub(super) fn keep_watch_on(host: impl BufRead) {
    stand_apart();
    if let Some(charge) = Charge::until_end(host) {
        charge.end();
    }
}

/// In a session of its own, nowhere, with nothing open but the pipe, and deaf to the usual signals:
/// whoever ends the host by signals to everything in sight shall not end its guardian first.
fn stand_apart() {
    // Fails only for a leader of a group, who is apart already.
    let _ = rustix::process::setsid();
    ignore_signals();
    close_inherited();
    let _ = std::env::set_current_dir("/");
    // So that whoever kills all processes of the host's name does not kill this one.
    let _ = fs::write("/proc/self/comm", "mcp-guardian");
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no such call")]
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
        // SAFETY: sets a disposition and installs no handler.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// What the program that started this one had open and did not mark as its own. (Before Linux 5.9
/// it stays open.)
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no such call")]
fn close_inherited() {
    let (first, last, flags) = (3, libc::c_uint::MAX, 0);
    // SAFETY: a guardian holds no descriptor but the standard ones.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, flags);
    }
}

#[cfg(not(target_os = "linux"))]
fn ignore_signals() {}

#[cfg(not(target_os = "linux"))]
fn close_inherited() {}

/// What a guardian was told.
#[derive(Debug, PartialEq, Eq)]
struct Charge {
    host: HostTag,
    session: i32,
    groups: BTreeSet<i32>,
}

impl Charge {
    /// Listens until the pipe closes. `None`: nobody said whose guardian this is.
    fn until_end(host: impl BufRead) -> Option<Self> {
        let mut charge = None;
        let messages = host.lines().map_while(Result::ok);
        for message in messages.filter_map(|line| Message::parse(&line)) {
            match (message, &mut charge) {
                (Message::Host(host, session), None) => {
                    charge = Some(Self {
                        host,
                        session,
                        groups: BTreeSet::new(),
                    });
                }
                (Message::Began(group), Some(charge)) => {
                    charge.groups.insert(group.as_raw_nonzero().get());
                }
                (Message::Ended(group), Some(charge)) => {
                    charge.groups.remove(&group.as_raw_nonzero().get());
                }
                _ => {}
            }
        }
        charge
    }

    fn end(&self) {
        let was_somebody = sweep::ask_to_leave(|| self.look());
        // A group is ended in one go, so that none of it can start another meanwhile.
        for group in self.groups_left() {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        sweep::end_now(|| self.look(), was_somebody);
    }

    fn look(&self) -> Vec<Sighting> {
        let mut environments = Environments::default();
        let mut is_marked = |pid| {
            let mut marks = environments.marks(pid);
            marks.any(|mark| mark.host == self.host && !mark.keeps_daemons)
        };
        let is_ours = |pid: &Pid| {
            Stat::of(*pid).is_some_and(|stat| self.is_in_group(&stat)) || is_marked(*pid)
        };
        let ours: Vec<_> = procfs::others().filter(is_ours).collect();
        let seen: Vec<_> = ours.into_iter().filter_map(Sighting::of).collect();
        // The number may have changed hands: it must still be so after the start is known.
        let is_still_ours = |seen: &Sighting| {
            Stat::of(seen.pid).is_some_and(|stat| self.is_in_group(&stat)) || is_marked(seen.pid)
        };
        seen.into_iter().filter(is_still_ours).collect()
    }

    /// A number that went to somebody else is most likely in another session, too.
    fn is_in_group(&self, stat: &Stat) -> bool {
        stat.session == self.session && self.groups.contains(&stat.group)
    }

    fn groups_left(&self) -> Vec<Pid> {
        let groups: BTreeSet<_> = procfs::others()
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
    fn what_was_told_is_remembered_and_nonsense_is_not() {
        let host = HostTag::new();
        let pid = |number| Pid::from_raw(number).unwrap();
        let messages = [
            Message::Host(host, 0),
            Message::Began(pid(10)),
            Message::Began(pid(11)),
            Message::Ended(pid(10)),
        ];
        let told: String = messages.iter().map(ToString::to_string).collect();
        let nonsense = "began 1\nbegan 0\nbegan -5\nbegan\nbegan x\n\nhost x 1\n";
        let charge = Charge::until_end(format!("{told}{nonsense}").as_bytes());
        let expected = Charge {
            host,
            session: 0,
            groups: BTreeSet::from([11]),
        };
        assert_eq!(charge, Some(expected));
        assert_eq!(Charge::until_end("began 10\n".as_bytes()), None);
    }
}
