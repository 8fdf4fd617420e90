//! The children of one host, and the processes that escaped from their process groups.
//!
//! [`ChildProcess`](crate::ChildProcess) ends a child's group. This module finds and ends the
//! processes that left the group (daemons): by the [marker](crate::env_marker) in their environment
//! or, if this process is a [`Subreaper`], among its descendants. It starts no children. Invariant:
//! after [`ProcessTracker::shut_down`] or [`ProcessTracker::kill_all`] nothing that a scan can find
//! remains of any child, except for the daemons of children that keep them.

mod child_registry;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::child_registry::ChildRegistry;
use crate::env_marker::{ChildNumber, EnvMarker, HostId};
use crate::guardian::GuardianHandle;
use crate::lock::lock;
use crate::procfs;
use crate::reaper::{self, ProcessIdentity};
use crate::spawn_thread::SpawnThread;
use crate::subreaper::{self, ChildOrigin, ReapZombies, Subreaper};

/// With at most this many children, each of them gets its own scan when it ends.
const MAX_UNSHARED_SCANS: usize = 16;
/// How long a child that has ended waits for others to end, to share a scan with them.
const SHARED_SCAN_DELAY: Duration = Duration::from_millis(25);

/// A process that a scan found, and the child that it descends from, if that is known.
type EscapedProcess = (ProcessIdentity, Option<ChildNumber>);

/// Handle to the children of one host. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ProcessTracker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: HostId,
    subreaper: Option<Subreaper>,
    guardian: Option<Arc<GuardianHandle>>,
    spawn_thread: SpawnThread,
    /// Held while a child is started and while orphans are reaped. Otherwise a child that exits
    /// before it is registered would be reaped as an orphan.
    spawn_lock: Mutex<()>,
    registry: Mutex<ChildRegistry>,
    /// The latest scan, shared by all children that ended before it started.
    last_scan: Mutex<Option<Scan>>,
}

#[derive(Debug)]
struct Scan {
    started_at: Instant,
    found: Vec<EscapedProcess>,
}

/// Which escaped processes are to be ended.
#[derive(Clone, Copy, Debug)]
enum SweepScope {
    Child(ChildNumber),
    /// Those of all children, when the host shuts down.
    AllChildren,
}

impl ProcessTracker {
    pub(crate) fn new(
        host: HostId,
        subreaper: Option<Subreaper>,
        guardian: Option<Arc<GuardianHandle>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                host,
                subreaper,
                guardian,
                spawn_thread: SpawnThread::default(),
                spawn_lock: Mutex::default(),
                registry: Mutex::default(),
                last_scan: Mutex::default(),
            }),
        }
    }

    pub(crate) fn spawn_thread(&self) -> &SpawnThread {
        &self.shared.spawn_thread
    }

    /// To be held from before a child is started until it is registered.
    pub(crate) fn lock_spawning(&self) -> MutexGuard<'_, ()> {
        lock(&self.shared.spawn_lock)
    }

    /// The marker of the next child.
    pub(crate) fn next_marker(&self, keep_daemons: bool) -> EnvMarker {
        EnvMarker {
            host: self.shared.host,
            child: lock(&self.shared.registry).next_child(),
            keep_daemons,
        }
    }

    /// Starts the guardian, if one is configured and none is running.
    pub(crate) fn ensure_guardian(&self) {
        if let Some(guardian) = &self.shared.guardian {
            let groups: Vec<_> = self.registry().groups().keys().copied().collect();
            guardian.ensure_watching(self.shared.host, &groups);
        }
    }

    /// Adds a child that was just started. Returns false if the host is shutting down: the caller
    /// must drop the child.
    pub(crate) fn register(&self, group: Pid, marker: &EnvMarker) -> bool {
        if let Some(guardian) = &self.shared.guardian {
            guardian.group_started(group);
        }
        self.registry().register(group, marker)
    }

    /// Removes a child whose group has ended, or was killed if `was_killed`. If its daemons were
    /// not searched for yet, the spawn thread searches for them soon, unless its queue is full.
    pub(crate) fn unregister(&self, group: Pid, child: ChildNumber, was_killed: bool) {
        let is_unchecked = {
            let mut registry = self.registry();
            if was_killed {
                registry.add_killed_group(group);
            }
            registry.unregister(group, child)
        };
        if let Some(guardian) = &self.shared.guardian {
            guardian.group_ended(group);
        }
        if is_unchecked {
            let tracker = self.clone();
            self.shared.spawn_thread.try_enqueue(move || {
                reaper::kill_all(|| tracker.scan_for(SweepScope::Child(child)), false);
                tracker.registry().mark_checked(child);
            });
        }
    }

    /// Ends the daemons of a child whose group has ended: SIGTERM, a grace period, SIGKILL.
    pub(crate) async fn end_daemons(&self, child: ChildNumber) {
        let now = Instant::now();
        let is_unchecked = self.registry().note_end(child, now);
        if is_unchecked {
            self.wait_for_other_ends().await;
            self.end_escaped(SweepScope::Child(child), now).await;
            self.registry().mark_checked(child);
        }
    }

    /// Waits, so that children that end at about the same time share one scan. A scan visits every
    /// child, so one scan for each of many children takes quadratic time.
    async fn wait_for_other_ends(&self) {
        let children = self.registry().groups().len();
        if children > MAX_UNSHARED_SCANS {
            tokio::time::sleep(SHARED_SCAN_DELAY).await;
        }
    }

    /// Kills the remaining groups and ends escaped processes with SIGTERM before SIGKILL. Accepts
    /// no child afterwards.
    pub(crate) async fn shut_down(&self) {
        if let Some(since) = self.close() {
            self.end_escaped(SweepScope::AllChildren, since).await;
        }
        self.finish();
    }

    /// Kills the remaining groups and all escaped processes. Blocks. Accepts no child afterwards.
    pub(crate) fn kill_all(&self) {
        if self.close().is_some() {
            reaper::kill_all(|| self.scan_for(SweepScope::AllChildren), false);
        }
        self.finish();
    }

    /// Kills the remaining groups. Returns the earliest start of a scan that can have seen all
    /// escaped processes, or `None` if no process can have escaped.
    fn close(&self) -> Option<Instant> {
        // The registry stays locked, so that no pid is unregistered and reused before the signal.
        let mut registry = self.registry();
        let closing = registry.close(self.shared.subreaper.is_some());
        for group in &closing.groups {
            let _ = rustix::process::kill_process_group(*group, Signal::KILL);
        }
        closing.scan_since
    }

    fn finish(&self) {
        self.registry().finish();
        if let Some(guardian) = &self.shared.guardian {
            guardian.stop();
        }
    }

    /// Ends the escaped processes in `scope`, whose groups had ended by `since`.
    async fn end_escaped(&self, scope: SweepScope, since: Instant) {
        let found = if self.shared.subreaper.is_some() {
            // A scan of the descendants is cheaper than the switch to another thread.
            Ok(self.scan_since(since, scope))
        } else {
            let tracker = self.clone();
            let scan = move || tracker.scan_since(since, scope);
            self.shared.spawn_thread.run(scan).await
        };
        if found.is_ok_and(|found| found.is_empty()) {
            return;
        }
        // Ending the processes takes up to the grace period. A separate thread does it, so that no
        // start is delayed.
        let (reply, done) = oneshot::channel();
        let tracker = self.clone();
        let thread = std::thread::Builder::new().name("switchboard-sweep".to_owned());
        let spawned = thread.spawn(move || {
            reaper::terminate_then_kill(|| tracker.scan_for(scope));
            let _ = reply.send(());
        });
        match spawned {
            Ok(_) => drop(done.await),
            Err(_) => reaper::kill_all(|| self.scan_for(scope), true),
        }
    }

    /// Like [`Self::scan_for`], but reuses the latest scan if it started after `since`. When many
    /// children end at the same time, they share a few scans.
    fn scan_since(&self, since: Instant, scope: SweepScope) -> Vec<ProcessIdentity> {
        let mut last = lock(&self.shared.last_scan);
        let scan = match last.take() {
            Some(scan) if scan.started_at >= since => scan,
            _ => Scan {
                started_at: Instant::now(),
                found: self.scan(),
            },
        };
        let scan = last.insert(scan);
        self.select(&scan.found, scope)
    }

    fn scan_for(&self, scope: SweepScope) -> Vec<ProcessIdentity> {
        self.select(&self.scan(), scope)
    }

    fn select(&self, found: &[EscapedProcess], scope: SweepScope) -> Vec<ProcessIdentity> {
        let registry = self.registry();
        let subreaper = self.shared.subreaper.as_ref();
        let has_preexisting = subreaper.is_some_and(|it| !it.preexisting_children().is_empty());
        // A process without a marker may be a daemon that is kept, or descend from a child that
        // existed before the host. It is ended only if neither exists.
        let may_end_unmarked = !registry.has_daemon_keepers() && !has_preexisting;
        let is_in_scope = |child: Option<ChildNumber>| match (scope, child) {
            (SweepScope::Child(wanted), child) => child == Some(wanted),
            (SweepScope::AllChildren, Some(child)) => !registry.keeps_daemons(child),
            (SweepScope::AllChildren, None) => may_end_unmarked,
        };
        let selected = found.iter().filter(|(_, child)| is_in_scope(*child));
        selected.map(|(process, _)| *process).collect()
    }

    /// Finds all processes that descend from a child of this host. Reaps orphans that have ended.
    fn scan(&self) -> Vec<EscapedProcess> {
        let host = self.shared.host;
        match &self.shared.subreaper {
            None => {
                reaper::find_marked(|marker| (marker.host == host).then_some(Some(marker.child)))
            }
            Some(subreaper) => {
                self.wait_for_killed_groups();
                self.scan_descendants(subreaper)
            }
        }
    }

    /// Until a killed process is gone, its children are being moved to a new parent, and a scan of
    /// the process tree can miss them.
    fn wait_for_killed_groups(&self) {
        // Removed from the list only after the wait, so that concurrent scans wait, too.
        let killed = self.registry().killed_groups().to_vec();
        if !killed.is_empty() {
            reaper::wait_while(|| killed.iter().any(|group| procfs::is_group_alive(*group)));
            self.registry().remove_killed_groups(&killed);
        }
    }

    fn scan_descendants(&self, subreaper: &Subreaper) -> Vec<EscapedProcess> {
        // While a child is being started, it is not registered yet and must not be reaped.
        let spawn_guard = self.shared.spawn_lock.try_lock();
        let reap = match &spawn_guard {
            Ok(_) => ReapZombies::Now,
            Err(_) => ReapZombies::Later,
        };
        let guardian = self.shared.guardian.as_ref();
        let guardian = guardian.and_then(|guardian| guardian.pid());
        let groups = self.registry().groups().clone();
        subreaper::scan_descendants(self.shared.host, reap, |pid| match groups.get(&pid) {
            Some(child) => ChildOrigin::Started(*child),
            None if guardian == Some(pid) => ChildOrigin::Unrelated,
            None if subreaper.preexisting_children().contains(&pid) => ChildOrigin::Unrelated,
            None => ChildOrigin::Adopted,
        })
    }

    /// Reaps adopted orphans on SIGCHLD until `stop`. Does nothing unless this process is a
    /// subreaper.
    pub(crate) fn spawn_orphan_reaper(&self, tasks: &TaskTracker, stop: CancellationToken) {
        if self.shared.subreaper.is_none() {
            return;
        }
        let Ok(mut child_signals) = signal(SignalKind::child()) else {
            return;
        };
        // Weak: the task must not keep the spawn thread alive.
        let shared = Arc::downgrade(&self.shared);
        tasks.spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    _ = child_signals.recv() => {}
                }
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let tracker = Self { shared };
                if let Some(subreaper) = &tracker.shared.subreaper {
                    tracker.scan_descendants(subreaper);
                }
            }
        });
    }

    fn registry(&self) -> MutexGuard<'_, ChildRegistry> {
        lock(&self.shared.registry)
    }
}
