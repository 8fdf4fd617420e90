//! Orphans that come to this process instead of to init.
//!
//! With that, every process that a server ever started stands somewhere below this one, whatever it
//! did to its session or its environment. Invariant: a child that this host started itself is never
//! waited for here; its status belongs to whoever started it.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::procfs::{self, Environments, Families};
use super::sweep::Sighting;
use super::tag::HostTag;

/// More than this below one process is a flood; the next look sees the rest.
const MOST: usize = 65_536;

/// This process adopts the orphans among its descendants.
///
/// For programs that own their process, and whose only children are those of their
/// [`Host`](crate::Host): **a child that the host did not start counts as an orphan**. It is waited
/// for when it ends, and ended together with the host. A program that starts processes of its own
/// must not have this.
///
/// Children that it has already when this begins (a shell that became this program may have left
/// some) are left alone. As their orphans cannot be told from others, an orphan then goes only if it
/// carries the mark of the host.
///
/// Linux only. Elsewhere, [`Adoption::begin`] says so.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Children from before. Nobody waits for them, so their numbers stay theirs.
    strangers: Arc<[Pid]>,
}

impl Adoption {
    /// From here on orphans come to this process, for as long as it lives.
    pub fn begin() -> io::Result<Self> {
        if !procfs::is_about_us() {
            return Err(io::Error::other("/proc is not about this process"));
        }
        let own = rustix::process::getpid();
        let strangers = Families::now().children(own).into();
        become_subreaper(own)?;
        Ok(Self { strangers })
    }

    /// Does something during which orphans go to init, as they do without this.
    ///
    /// For what the user starts by way of this program and wants to keep, a browser for one: the work
    /// starts a process which starts that and leaves. It is to be short: whatever a server lets go
    /// meanwhile is found by its mark only.
    pub fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Goes on whatever comes of the work.
        struct Paused;
        impl Drop for Paused {
            fn drop(&mut self) {
                // It could be done before; there is nobody to tell that it no longer can.
                let _ = become_subreaper(rustix::process::getpid());
            }
        }
        let paused = Paused;
        stop_being_subreaper();
        let done = work();
        drop(paused);
        done
    }

    pub(crate) fn strangers(&self) -> &[Pid] {
        &self.strangers
    }
}

#[cfg(target_os = "linux")]
fn become_subreaper(own: Pid) -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(own))?)
}

#[cfg(target_os = "linux")]
fn stop_being_subreaper() {
    // If it fails, what is started is ended with the host: a pity, and no harm.
    let _ = rustix::process::set_child_subreaper(None);
}

#[cfg(not(target_os = "linux"))]
fn stop_being_subreaper() {}

#[cfg(not(target_os = "linux"))]
fn become_subreaper(_: Pid) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Whom a child of this process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The host started it, as this number.
    Started(u64),
    /// It comes from no server.
    Other,
    Adopted,
}

/// Whether those that have ended are taken leave of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    Taken,
    Later,
}

/// Everybody below this process except for what it started itself, and the number of the child that
/// each comes from, if that can be told.
pub(crate) fn below_us(
    host: HostTag,
    farewell: Farewell,
    role: impl Fn(Pid) -> Role,
) -> Vec<(Sighting, Option<u64>)> {
    let families = Families::now();
    let mut environments = Environments::default();
    let mut found = Vec::new();
    let mut open = Vec::new();
    for child in families.children(rustix::process::getpid()) {
        match role(child) {
            Role::Other => {}
            Role::Started(number) => open.push((child, Some(number))),
            Role::Adopted if farewell == Farewell::Taken && has_ended(child) => {}
            Role::Adopted => {
                let mark = environments.marks(child).find(|mark| mark.host == host);
                let number = mark.map(|mark| mark.number);
                found.extend(Sighting::of(child).map(|sighting| (sighting, number)));
                open.push((child, number));
            }
        }
    }
    let mut seen: HashSet<Pid> = open.iter().map(|(pid, _)| *pid).collect();
    while let Some((parent, number)) = open.pop() {
        for child in families.children(parent) {
            if found.len() < MOST && seen.insert(child) {
                found.extend(Sighting::of(child).map(|sighting| (sighting, number)));
                open.push((child, number));
            }
        }
    }
    found
}

/// Whether an orphan is over; if so, it is gone for good now.
fn has_ended(orphan: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    !matches!(
        rustix::process::waitid(WaitId::Pid(orphan), options),
        Ok(None)
    )
}
