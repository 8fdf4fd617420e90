//! The process groups of a host's children, and which children still have to be searched for
//! daemons.
//!
//! Plain data, no system calls. Invariant: once closed, the registry accepts no child, so a child
//! that was started concurrently with the shutdown is dropped by its caller.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use rustix::process::Pid;

use crate::env_marker::{ChildNumber, EnvMarker};

#[derive(Debug, Default)]
pub(super) struct ChildRegistry {
    /// Number of children started so far.
    count: u64,
    /// Process groups that may have members, and the child that leads each.
    groups: HashMap<Pid, ChildNumber>,
    /// Groups that were killed, but may still have members that are dying.
    killed_groups: Vec<Pid>,
    /// Children whose daemons have not been searched for yet.
    unchecked: BTreeSet<ChildNumber>,
    /// Children whose daemons survive.
    daemon_keepers: BTreeSet<ChildNumber>,
    /// When the last group ended. A later scan finds every process that escaped from it.
    last_end: Option<Instant>,
    /// The host is shutting down and accepts no more children.
    is_closed: bool,
    /// Nothing remains of any child.
    is_finished: bool,
}

/// What a closing host still has to end.
pub(super) struct Closing {
    /// Groups to kill.
    pub(super) groups: Vec<Pid>,
    /// Start of the oldest scan that can have seen all escaped processes; `None` if no process can
    /// have escaped.
    pub(super) scan_since: Option<Instant>,
}

impl ChildRegistry {
    pub(super) fn next_child(&mut self) -> ChildNumber {
        self.count += 1;
        ChildNumber(self.count)
    }

    /// Adds a child. Returns false if the registry is closed: the caller must end the child.
    pub(super) fn register(&mut self, group: Pid, marker: &EnvMarker) -> bool {
        self.groups.insert(group, marker.child);
        if marker.keep_daemons {
            self.daemon_keepers.insert(marker.child);
        } else {
            self.unchecked.insert(marker.child);
        }
        !self.is_closed
    }

    /// Removes the group of a child that ended. Returns whether its daemons have to be searched
    /// for.
    pub(super) fn unregister(&mut self, group: Pid, child: ChildNumber) -> bool {
        self.groups.remove(&group);
        let is_unchecked = self.unchecked.contains(&child);
        if is_unchecked {
            self.last_end = Some(Instant::now());
        }
        is_unchecked
    }

    /// Notes that all members of the child's group ended at `now`. Returns whether its daemons have
    /// to be searched for.
    pub(super) fn note_end(&mut self, child: ChildNumber, now: Instant) -> bool {
        self.last_end = Some(now);
        self.unchecked.contains(&child)
    }

    /// The daemons of a child were searched for and ended.
    pub(super) fn mark_checked(&mut self, child: ChildNumber) {
        self.unchecked.remove(&child);
    }

    /// Accepts no more children. With `adopts_orphans`, a scan is needed even if no child is
    /// unchecked: every child may have left orphans that this process adopted.
    pub(super) fn close(&mut self, adopts_orphans: bool) -> Closing {
        self.is_closed = true;
        let since = match self.last_end {
            Some(end) if self.groups.is_empty() => end,
            _ => Instant::now(),
        };
        let groups: Vec<Pid> = self.groups.keys().copied().collect();
        self.killed_groups.extend(&groups);
        let has_orphans = adopts_orphans && self.count > 0;
        let may_have_escaped = !self.is_finished && (has_orphans || !self.unchecked.is_empty());
        Closing {
            groups,
            scan_since: may_have_escaped.then_some(since),
        }
    }

    pub(super) fn finish(&mut self) {
        self.unchecked.clear();
        self.is_finished = true;
    }

    pub(super) fn groups(&self) -> &HashMap<Pid, ChildNumber> {
        &self.groups
    }

    pub(super) fn add_killed_group(&mut self, group: Pid) {
        self.killed_groups.push(group);
    }

    pub(super) fn killed_groups(&self) -> &[Pid] {
        &self.killed_groups
    }

    /// The members of these groups are gone.
    pub(super) fn remove_killed_groups(&mut self, gone: &[Pid]) {
        self.killed_groups.retain(|group| !gone.contains(group));
    }

    pub(super) fn keeps_daemons(&self, child: ChildNumber) -> bool {
        self.daemon_keepers.contains(&child)
    }

    pub(super) fn has_daemon_keepers(&self) -> bool {
        !self.daemon_keepers.is_empty()
    }
}
