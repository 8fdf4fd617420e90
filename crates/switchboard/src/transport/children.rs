//! All children of a host: how they are started, and the end of what they leave behind.
//!
//! A child's group is ended by its [`Process`]. What left the group (daemons) is found here, by the
//! mark that it carries or, where this process [adopts](Adoption) orphans, because it stands below
//! us. Invariant: when [`Children::end`] or [`Children::kill_all`] is back, nothing is left of any
//! child, unless its entry keeps daemons; and no child is started afterwards.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::process::{Pid, Signal};
use switchboard_config::Profile;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::guardian::Post;
use super::orphans::{self, Adoption, Role};
use super::process::{Launch, Pipes, Process, SpawnError, spawn};
use super::procfs;
use super::spawner::Spawner;
use super::sweep::{self, Sighting};
use super::tag::{HostTag, Mark, VARIABLE};
use crate::sync::lock;

/// A process that left its group, and the child that it comes from, if that can be told.
type Escaped = (Sighting, Option<u64>);

/// How a host looks after its children, on top of what it does for each.
#[derive(Debug)]
pub(crate) struct Care {
    pub(crate) tag: HostTag,
    pub(crate) adoption: Option<Adoption>,
    pub(crate) guardian: Option<Arc<Post>>,
    /// Whether there may be children at all.
    pub(crate) profile: Profile,
}

/// All children of a host.
#[derive(Clone, Debug)]
pub(crate) struct Children {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spawner: Spawner,
    care: Care,
    /// Held while a child comes to be, and while orphans are taken leave of.
    family: Mutex<()>,
    ledger: Mutex<Ledger>,
    /// The newest look, for all who asked before it began.
    last_look: Mutex<Option<Look>>,
}

/// Which children there are and were.
#[derive(Debug, Default)]
struct Ledger {
    /// How many were started.
    count: u64,
    /// The groups that are not known to be empty, and the number of the child that leads each.
    groups: HashMap<Pid, u64>,
    /// Groups that were killed and not waited for.
    dying: Vec<Pid>,
    /// Children after whose end nobody has looked for daemons yet.
    unswept: BTreeSet<u64>,
    /// Children whose daemons may stay.
    keepers: BTreeSet<u64>,
    /// When the last group was over: whoever comes from a child was there then.
    last_end: Option<Instant>,
    /// The host is at its end: nothing is started any more.
    is_closed: bool,
    /// Everything is over.
    is_over: bool,
}

#[derive(Debug)]
struct Look {
    began: Instant,
    found: Vec<Escaped>,
}

/// Whose daemons are meant.
#[derive(Clone, Copy, Debug)]
enum Whose {
    Child(u64),
    /// Everybody's, at the end of the host.
    All,
}

impl Children {
    pub(crate) fn new(care: Care) -> Self {
        Self {
            shared: Arc::new(Shared {
                spawner: Spawner::default(),
                care,
                family: Mutex::default(),
                ledger: Mutex::default(),
                last_look: Mutex::default(),
            }),
        }
    }

    /// Starts a child as the leader of a new group.
    pub(crate) async fn start(&self, launch: Launch) -> Result<(Process, Pipes), SpawnError> {
        let command = launch.command.clone();
        if self.shared.care.profile == Profile::Server {
            return Err(SpawnError::Barred { command });
        }
        let children = self.clone();
        // The process is made where the child is, so that whoever stops waiting leaves nothing.
        let job = move || children.start_here(launch);
        let started = self.shared.spawner.run(job).await;
        started.unwrap_or_else(|error| {
            let why = error.to_string();
            Err(SpawnError::Other { command, why })
        })
    }

    fn start_here(self, mut launch: Launch) -> Result<(Process, Pipes), SpawnError> {
        launch.settle()?;
        let _family = lock(&self.shared.family);
        let mark = self.next_mark(launch.keeps_daemons);
        let value = mark.inside(launch.outer_mark.as_deref());
        launch.env.insert(VARIABLE.to_owned(), value);
        if let Some(post) = &self.shared.care.guardian {
            let groups: Vec<_> = lock(&self.shared.ledger).groups.keys().copied().collect();
            post.man(mark.host, &groups);
        }
        let spawned = spawn(&launch)?;
        let is_wanted = self.enter(spawned.group, &mark);
        let process = Process::new(spawned.leader, spawned.group, mark.number, self.clone());
        if is_wanted {
            Ok((process, spawned.pipes))
        } else {
            let why = "the host is shutting down".to_owned();
            let command = launch.command;
            Err(SpawnError::Other { command, why })
        }
    }

    fn next_mark(&self, keeps_daemons: bool) -> Mark {
        let mut ledger = lock(&self.shared.ledger);
        ledger.count += 1;
        Mark {
            host: self.shared.care.tag,
            number: ledger.count,
            keeps_daemons,
        }
    }

    /// Enters a child into the books. False: the host is at its end, and has no use for it.
    fn enter(&self, group: Pid, mark: &Mark) -> bool {
        if let Some(post) = &self.shared.care.guardian {
            post.group_began(group);
        }
        let mut ledger = lock(&self.shared.ledger);
        ledger.groups.insert(group, mark.number);
        if mark.keeps_daemons {
            ledger.keepers.insert(mark.number);
        } else {
            ledger.unswept.insert(mark.number);
        }
        !ledger.is_closed
    }

    /// A child's group is over. Its daemons are looked for soon, if nobody did yet.
    pub(super) fn leave(&self, group: Pid, number: u64, is_dying: bool) {
        let is_unswept = {
            let mut ledger = lock(&self.shared.ledger);
            ledger.groups.remove(&group);
            if is_dying {
                ledger.dying.push(group);
            }
            let is_unswept = ledger.unswept.contains(&number);
            if is_unswept {
                ledger.last_end = Some(Instant::now());
            }
            is_unswept
        };
        if let Some(post) = &self.shared.care.guardian {
            post.group_ended(group);
        }
        if is_unswept {
            let children = self.clone();
            self.shared.spawner.run_soon(move || {
                sweep::end_now(|| children.look_for(Whose::Child(number)), false);
                lock(&children.shared.ledger).unswept.remove(&number);
            });
        }
    }

    /// Ends the daemons of a child that is over: SIGTERM, a moment, SIGKILL.
    pub(super) async fn end_daemons(&self, number: u64) {
        let now = Instant::now();
        let is_unswept = {
            let mut ledger = lock(&self.shared.ledger);
            ledger.last_end = Some(now);
            ledger.unswept.contains(&number)
        };
        if is_unswept {
            self.end_escaped(Whose::Child(number), now).await;
            lock(&self.shared.ledger).unswept.remove(&number);
        }
    }

    /// Ends what is left of all children in good order. Nothing can be started afterwards.
    pub(crate) async fn end(&self) {
        if let Some(since) = self.close() {
            self.end_escaped(Whose::All, since).await;
        }
        self.finish();
    }

    /// Ends what is left of all children at once. Nothing can be started afterwards.
    pub(crate) fn kill_all(&self) {
        if self.close().is_some() {
            sweep::end_now(|| self.look_for(Whose::All), false);
        }
        self.finish();
    }

    /// Ends the groups, and those that come to be. Says since when there may be something left that
    /// is in none; `None`: there is not.
    fn close(&self) -> Option<Instant> {
        let mut ledger = lock(&self.shared.ledger);
        ledger.is_closed = true;
        let since = match ledger.last_end {
            Some(end) if ledger.groups.is_empty() => end,
            _ => Instant::now(),
        };
        let groups: Vec<Pid> = ledger.groups.keys().copied().collect();
        for group in &groups {
            let _ = rustix::process::kill_process_group(*group, Signal::KILL);
        }
        ledger.dying.extend(groups);
        let has_orphans = self.shared.care.adoption.is_some() && ledger.count > 0;
        let may_be_more = !ledger.is_over && (has_orphans || !ledger.unswept.is_empty());
        may_be_more.then_some(since)
    }

    fn finish(&self) {
        {
            let mut ledger = lock(&self.shared.ledger);
            ledger.unswept.clear();
            ledger.is_over = true;
        }
        if let Some(post) = &self.shared.care.guardian {
            post.dismiss();
        }
    }

    /// Ends whoever left a group that was over at `since`.
    async fn end_escaped(&self, whose: Whose, since: Instant) {
        let found = if self.shared.care.adoption.is_some() {
            // Cheaper than a change of threads.
            Ok(self.look_since(since, whose))
        } else {
            let children = self.clone();
            let look = move || children.look_since(since, whose);
            self.shared.spawner.run(look).await
        };
        if found.is_ok_and(|found| found.is_empty()) {
            return;
        }
        // Rare, and takes its time: on a thread of its own, so that nobody else waits.
        let (reply, done) = oneshot::channel();
        let children = self.clone();
        let thread = std::thread::Builder::new().name("switchboard-sweep".to_owned());
        let spawned = thread.spawn(move || {
            sweep::end(|| children.look_for(whose));
            let _ = reply.send(());
        });
        match spawned {
            Ok(_) => drop(done.await),
            Err(_) => sweep::end_now(|| self.look_for(whose), true),
        }
    }

    /// As [`Self::look_for`], but any look that began after `since` is good enough: when many children
    /// end at the same time, few looks do for all of them.
    fn look_since(&self, since: Instant, whose: Whose) -> Vec<Sighting> {
        let mut last = lock(&self.shared.last_look);
        let look = match last.take() {
            Some(look) if look.began >= since => look,
            _ => Look {
                began: Instant::now(),
                found: self.look(),
            },
        };
        let look = last.insert(look);
        self.chosen(&look.found, whose)
    }

    fn look_for(&self, whose: Whose) -> Vec<Sighting> {
        self.chosen(&self.look(), whose)
    }

    fn chosen(&self, found: &[Escaped], whose: Whose) -> Vec<Sighting> {
        let ledger = lock(&self.shared.ledger);
        let adoption = self.shared.care.adoption.as_ref();
        let has_strangers = adoption.is_some_and(|adoption| !adoption.strangers().is_empty());
        // One that wiped its mark may be a daemon that may stay, or come from a stranger.
        let is_certainly_ours = ledger.keepers.is_empty() && !has_strangers;
        let is_meant = |number: Option<u64>| match (whose, number) {
            (Whose::Child(child), number) => number == Some(child),
            (Whose::All, Some(number)) => !ledger.keepers.contains(&number),
            (Whose::All, None) => is_certainly_ours,
        };
        let meant = found.iter().filter(|(_, number)| is_meant(*number));
        meant.map(|(process, _)| *process).collect()
    }

    /// Everybody who comes from a child of this host. Orphans that have ended are taken leave of.
    fn look(&self) -> Vec<Escaped> {
        let tag = self.shared.care.tag;
        match &self.shared.care.adoption {
            None => sweep::marked(|mark| (mark.host == tag).then_some(Some(mark.number))),
            Some(adoption) => {
                self.await_the_dying();
                self.look_below(adoption)
            }
        }
    }

    /// Until a process is over, what it leaves behind is on its way to another parent, and a look
    /// down the tree may miss it.
    fn await_the_dying(&self) {
        // Taken off the list only afterwards, so that everybody who looks meanwhile waits too.
        let dying = lock(&self.shared.ledger).dying.clone();
        if !dying.is_empty() {
            sweep::wait_while(|| dying.iter().any(|group| procfs::is_group_alive(*group)));
            let mut ledger = lock(&self.shared.ledger);
            ledger.dying.retain(|group| !dying.contains(group));
        }
    }

    fn look_below(&self, adoption: &Adoption) -> Vec<Escaped> {
        let tag = self.shared.care.tag;
        // A child that is being started must not be taken for an orphan.
        let family = self.shared.family.try_lock();
        let farewell = match &family {
            Ok(_) => orphans::Farewell::Taken,
            Err(_) => orphans::Farewell::Later,
        };
        let guardian = self.shared.care.guardian.as_ref();
        let guardian = guardian.and_then(|post| post.pid());
        let groups = lock(&self.shared.ledger).groups.clone();
        orphans::below_us(tag, farewell, |pid| match groups.get(&pid) {
            Some(number) => Role::Started(*number),
            None if guardian == Some(pid) || adoption.strangers().contains(&pid) => Role::Other,
            None => Role::Adopted,
        })
    }

    /// Takes leave of orphans as they end, until `stop`. Does nothing where they go to init.
    pub(crate) fn spawn_mourner(&self, tasks: &TaskTracker, stop: CancellationToken) {
        if self.shared.care.adoption.is_none() {
            return;
        }
        let Ok(mut endings) = signal(SignalKind::child()) else {
            return;
        };
        // Not a hold on the host's children: they may go while this waits.
        let shared = Arc::downgrade(&self.shared);
        tasks.spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    _ = endings.recv() => {}
                }
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let children = Self { shared };
                if let Some(adoption) = &children.shared.care.adoption {
                    children.look_below(adoption);
                }
            }
        });
    }
}
