//! Makes this process a subreaper: orphaned descendants are reparented to it instead of to init.
//!
//! Every process that a child ever started then remains a descendant of this process, even if it
//! starts a new session or clears its environment. Invariant: this module never waits for a child
//! that the host started itself; [`ReapedChild`](crate::reaped_child) needs that exit status.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use rustix::process::{Pid, WaitId, WaitIdOptions};

use crate::env_marker::{ChildNumber, HostId};
use crate::procfs::{self, EnvironReader, ProcessTree};
use crate::reaper::ProcessIdentity;

/// Maximum number of descendants per scan. The next scan finds the others.
const MAX_DESCENDANTS: usize = 65_536;

/// This process adopts orphaned descendants.
///
/// Only for programs whose only children are those of their supervisor: **a child that the
/// supervisor did not start counts as an orphan**. It is reaped when it exits, and killed when the
/// supervisor shuts down. Do not use this in a program that starts processes by other means.
///
/// Children that existed before [`Subreaper::enable`] (a shell that `exec`s this program may have
/// left some) are not ended. Since their orphans cannot be distinguished from others, an orphan is
/// then ended only if it carries the marker of the host.
///
/// Linux only. On other systems [`Subreaper::enable`] returns an error.
#[derive(Clone, Debug)]
pub struct Subreaper {
    /// Never reaped by us, so their pids are not reused.
    preexisting_children: Arc<[Pid]>,
}

impl Subreaper {
    /// Makes this process a subreaper for the rest of its life.
    pub fn enable() -> io::Result<Self> {
        if !procfs::shows_our_namespace() {
            return Err(io::Error::other(
                "/proc does not show the pid namespace of this process",
            ));
        }
        let own = rustix::process::getpid();
        let preexisting_children = ProcessTree::now().children(own).into();
        set_subreaper(own)?;
        Ok(Self {
            preexisting_children,
        })
    }

    /// Runs `work` while orphans go to init, as they do without a subreaper.
    ///
    /// For a process that the user wants to keep, such as a browser: `work` starts an intermediate
    /// process that starts the browser and exits. `work` should be short: orphans of children that
    /// appear during that time do not descend from this process any more. The supervisor does not
    /// find them; only [`Guardian`](crate::Guardian) and [`kill_leftovers`](crate::kill_leftovers)
    /// do, by their marker.
    pub fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Enables the subreaper again, even if `work` panics.
        struct Paused;
        impl Drop for Paused {
            fn drop(&mut self) {
                // It succeeded in `enable`, so an error is not expected here.
                let _ = set_subreaper(rustix::process::getpid());
            }
        }
        let paused = Paused;
        unset_subreaper();
        let done = work();
        drop(paused);
        done
    }

    pub(crate) fn preexisting_children(&self) -> &[Pid] {
        &self.preexisting_children
    }
}

#[cfg(target_os = "linux")]
fn set_subreaper(own: Pid) -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(own))?)
}

#[cfg(target_os = "linux")]
fn unset_subreaper() {
    // On failure, this process adopts the process that the caller of `pause` wants to keep, and
    // kills it when the host shuts down.
    let _ = rustix::process::set_child_subreaper(None);
}

#[cfg(not(target_os = "linux"))]
fn set_subreaper(_: Pid) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(target_os = "linux"))]
fn unset_subreaper() {}

/// Where a direct child of this process comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildOrigin {
    /// The supervisor started it.
    Started(ChildNumber),
    /// Neither started by the supervisor nor an orphan of its children.
    Unrelated,
    /// An orphan that was reparented to this process.
    Adopted,
}

/// Whether a scan reaps adopted orphans that have exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReapZombies {
    Now,
    Later,
}

/// All descendants of this process except for the children that the supervisor started, with the
/// number of the child that each descends from, if known.
pub(crate) fn scan_descendants(
    host: HostId,
    reap: ReapZombies,
    origin: impl Fn(Pid) -> ChildOrigin,
) -> Vec<(ProcessIdentity, Option<ChildNumber>)> {
    let tree = ProcessTree::now();
    let mut environments = EnvironReader::default();
    let mut found = Vec::new();
    let mut to_visit = Vec::new();
    for pid in tree.children(rustix::process::getpid()) {
        match origin(pid) {
            ChildOrigin::Unrelated => {}
            ChildOrigin::Started(child) => to_visit.push((pid, Some(child))),
            ChildOrigin::Adopted if reap == ReapZombies::Now && reap_if_exited(pid) => {}
            ChildOrigin::Adopted => {
                let mut markers = environments.markers(pid);
                let child = markers
                    .find(|marker| marker.host == host)
                    .map(|marker| marker.child);
                found.extend(ProcessIdentity::of(pid).map(|process| (process, child)));
                to_visit.push((pid, child));
            }
        }
    }
    let mut seen: HashSet<Pid> = to_visit.iter().map(|(pid, _)| *pid).collect();
    while let Some((parent, child)) = to_visit.pop() {
        for pid in tree.children(parent) {
            if found.len() < MAX_DESCENDANTS && seen.insert(pid) {
                found.extend(ProcessIdentity::of(pid).map(|process| (process, child)));
                to_visit.push((pid, child));
            }
        }
    }
    found
}

/// Reaps an orphan if it has exited. Returns true if it is gone.
fn reap_if_exited(orphan: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    !matches!(
        rustix::process::waitid(WaitId::Pid(orphan), options),
        Ok(None)
    )
}
