//! Reads process information from `/proc`.
//!
//! Read only. Finds no processes where there is no `/proc`, or where `/proc` belongs to another pid
//! namespace. Invariant: nothing is cached; a process is identified by its pid *and* start time,
//! because pids are reused.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;

use memchr::memmem;
use rustix::process::Pid;

use crate::env_marker::{EnvMarker, MARKER_VARIABLE};

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Start time, in clock ticks since boot.
    pub(crate) start: u64,
}

impl Stat {
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        Self::parse(&text)
    }

    /// The second field, the program name in parentheses, can contain spaces and parentheses, so
    /// parsing starts after the last closing one.
    fn parse(text: &str) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        // The session is field 6, the start time field 22.
        let start = fields.nth(15)?.parse().ok()?;
        Some(Self {
            state,
            parent,
            group,
            session,
            start,
        })
    }

    /// Whether the process has exited: it is a zombie, or being removed.
    pub(crate) fn has_exited(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Whether `/proc` shows the pid namespace of this process. If a namespace has not mounted its own
/// `/proc`, the pids there belong to unrelated processes.
pub(crate) fn shows_our_namespace() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.is_some_and(|own| own.as_os_str() == std::process::id().to_string().as_str())
}

/// The pids of all processes except this one.
pub(crate) fn other_pids() -> impl Iterator<Item = Pid> {
    let own = rustix::process::getpid();
    let listing = shows_our_namespace().then(|| fs::read_dir("/proc"));
    let entries = listing.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(move |pid| *pid != own)
}

/// Whether a process group has a member that is not a zombie. Returns true if `/proc` cannot tell.
pub(crate) fn is_group_alive(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    let is_live_member = |stat: Stat| stat.group == group && !stat.has_exited();
    !shows_our_namespace() || other_pids().filter_map(Stat::of).any(is_live_member)
}

/// Reads the environments of processes, reusing one buffer.
#[derive(Debug, Default)]
pub(crate) struct EnvironReader {
    buffer: Vec<u8>,
}

impl EnvironReader {
    /// The markers in the environment that a process was started with. Empty if the process has
    /// exited or its environment is not readable.
    pub(crate) fn markers(&mut self, pid: Pid) -> impl Iterator<Item = EnvMarker> {
        self.buffer.clear();
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut self.buffer));
        let value = read.ok().and_then(|_| marker_value(&self.buffer));
        value.into_iter().flat_map(EnvMarker::parse_all)
    }
}

fn marker_value(environment: &[u8]) -> Option<&str> {
    let starts = memmem::find_iter(environment, MARKER_VARIABLE).filter(|at| {
        let before = at.checked_sub(1).and_then(|at| environment.get(at));
        before.is_none_or(|byte| *byte == 0)
    });
    let mut values = starts.filter_map(|at| {
        let (_, rest) = environment.split_at_checked(at + MARKER_VARIABLE.len())?;
        let value = rest.strip_prefix(b"=")?;
        std::str::from_utf8(value.split(|byte| *byte == 0).next()?).ok()
    });
    values.next()
}

/// The parent-child relations between processes.
#[derive(Debug)]
pub(crate) enum ProcessTree {
    /// The kernel lists the children of each thread; they are read on demand.
    ChildLists,
    /// The kernel has no such lists; the tree was built from the parent of every process.
    FromParents(HashMap<i32, Vec<Pid>>),
}

impl ProcessTree {
    pub(crate) fn now() -> Self {
        let own = std::process::id();
        if shows_our_namespace()
            && fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false)
        {
            return Self::ChildLists;
        }
        let mut children: HashMap<i32, Vec<Pid>> = HashMap::new();
        for pid in other_pids() {
            if let Some(stat) = Stat::of(pid) {
                children.entry(stat.parent).or_default().push(pid);
            }
        }
        Self::FromParents(children)
    }

    pub(crate) fn children(&self, parent: Pid) -> Vec<Pid> {
        match self {
            Self::ChildLists => read_child_lists(parent),
            Self::FromParents(children) => children
                .get(&parent.as_raw_nonzero().get())
                .cloned()
                .unwrap_or_default(),
        }
    }
}

/// Every thread has its own list of children.
fn read_child_lists(parent: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
    let lists = threads
        .into_iter()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let mut children = Vec::new();
    for list in lists {
        let pids = list.split_ascii_whitespace();
        children.extend(pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_parses_with_any_program_name() {
        let rest = "S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 99 1 18446744073709551615";
        let expected = Stat {
            state: 'S',
            parent: 7,
            group: 8,
            session: 9,
            start: 4242,
        };
        for name in ["sh", "a) Z 1 1", "", "((("] {
            assert_eq!(Stat::parse(&format!("5 ({name}) {rest}")), Some(expected));
        }
        for broken in ["", "5 (sh", "5 (sh) S 1 2", "5 (sh) S x 1 1"] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn marker_is_found_among_other_variables() {
        let value = |text: &str| marker_value(text.as_bytes()).map(str::to_owned);
        assert_eq!(
            value("A=1\0SWITCHBOARD_CHILD=x.1\0B=2\0"),
            Some("x.1".to_owned())
        );
        assert_eq!(value("SWITCHBOARD_CHILD=x"), Some("x".to_owned()));
        for none in [
            "",
            "A=SWITCHBOARD_CHILD=x\0",
            "SWITCHBOARD_CHILD",
            "SWITCHBOARD_CHILDREN=2\0",
            "NOT_SWITCHBOARD_CHILD=x\0",
        ] {
            assert_eq!(value(none), None, "{none}");
        }
    }

    #[test]
    fn own_process_has_start_time_and_is_excluded() {
        let own = Stat::of(rustix::process::getpid()).unwrap();
        assert!(!own.has_exited() && own.start > 0);
        assert!(other_pids().all(|pid| pid != rustix::process::getpid()));
    }
}
