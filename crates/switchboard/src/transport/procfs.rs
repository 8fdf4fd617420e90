//! What the kernel tells of processes, from `/proc`.
//!
//! Read only. Where there is no `/proc`, or that of others, nobody is found. Invariant: no answer is trusted longer
//! than the look that gave it; a process is known by its number *and* its start.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;

use memchr::memmem;
use rustix::process::Pid;

use super::tag::{Mark, VARIABLE};

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In ticks since the machine was started.
    pub(crate) start: u64,
}

impl Stat {
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        Self::parse(&text)
    }

    /// The name, in parentheses, may hold anything, parentheses too.
    fn parse(text: &str) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        // The session is field 6, the start field 22.
        let start = fields.nth(15)?.parse().ok()?;
        Some(Self {
            state,
            parent,
            group,
            session,
            start,
        })
    }

    /// It has ended and waits for its parent to notice.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Whether `/proc` speaks of the processes that we know by the same numbers. In a namespace that has
/// not mounted its own it does not, and would name strangers.
pub(crate) fn is_about_us() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.is_some_and(|own| own.as_os_str() == std::process::id().to_string().as_str())
}

/// The processes of this machine (or namespace) now, this one excepted.
pub(crate) fn others() -> impl Iterator<Item = Pid> {
    let own = rustix::process::getpid();
    let listing = is_about_us().then(|| fs::read_dir("/proc"));
    let entries = listing.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(move |pid| *pid != own)
}

/// Whether anybody in a group is more than a zombie that its parent, who may be slow, has not noticed
/// yet. Where that cannot be told, somebody is.
pub(crate) fn is_group_alive(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    let is_member = |stat: Stat| stat.group == group && !stat.is_over();
    !is_about_us() || others().filter_map(Stat::of).any(is_member)
}

/// Reads environments, one after the other, into the same memory.
#[derive(Debug, Default)]
pub(crate) struct Environments {
    buffer: Vec<u8>,
}

impl Environments {
    /// The marks that a process began with. None for one that has ended, or that is not ours to
    /// look into.
    pub(crate) fn marks(&mut self, pid: Pid) -> impl Iterator<Item = Mark> {
        self.buffer.clear();
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut self.buffer));
        let value = read.ok().and_then(|_| mark_variable(&self.buffer));
        value.into_iter().flat_map(Mark::all_in)
    }
}

fn mark_variable(environment: &[u8]) -> Option<&str> {
    let begins = memmem::find_iter(environment, VARIABLE).filter(|at| {
        let before = at.checked_sub(1).and_then(|at| environment.get(at));
        before.is_none_or(|byte| *byte == 0)
    });
    let mut values = begins.filter_map(|at| {
        let (_, rest) = environment.split_at_checked(at + VARIABLE.len())?;
        let value = rest.strip_prefix(b"=")?;
        std::str::from_utf8(value.split(|byte| *byte == 0).next()?).ok()
    });
    values.next()
}

/// Who is whose child.
#[derive(Debug)]
pub(crate) enum Families {
    /// The kernel lists the children of a thread.
    Listed,
    /// It does not: everybody was asked for their parent.
    Asked(HashMap<i32, Vec<Pid>>),
}

impl Families {
    pub(crate) fn now() -> Self {
        let own = std::process::id();
        if is_about_us() && fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false)
        {
            return Self::Listed;
        }
        let mut families: HashMap<i32, Vec<Pid>> = HashMap::new();
        for pid in others() {
            if let Some(stat) = Stat::of(pid) {
                families.entry(stat.parent).or_default().push(pid);
            }
        }
        Self::Asked(families)
    }

    pub(crate) fn children(&self, parent: Pid) -> Vec<Pid> {
        match self {
            Self::Listed => listed_children(parent),
            Self::Asked(families) => families
                .get(&parent.as_raw_nonzero().get())
                .cloned()
                .unwrap_or_default(),
        }
    }
}

/// Each thread has its own children.
fn listed_children(parent: Pid) -> Vec<Pid> {
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
    fn a_stat_is_read_whatever_the_name_is() {
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
    fn the_mark_is_found_among_other_variables() {
        let value = |text: &str| mark_variable(text.as_bytes()).map(str::to_owned);
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
    fn this_process_is_somebodys_child_and_has_a_start() {
        let own = Stat::of(rustix::process::getpid()).unwrap();
        assert!(!own.is_over() && own.start > 0);
        assert!(others().all(|pid| pid != rustix::process::getpid()));
    }
}
