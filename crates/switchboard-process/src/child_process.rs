//! A running child, its process group, and the steps that end both.
//!
//! This module ends the group only; [`ProcessTracker`] finds processes that left the group.
//! Invariant: after a [`ChildProcess`] was shut down or dropped, its process group is empty or has
//! been killed.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use tokio::time::timeout;

use crate::env_marker::ChildNumber;
use crate::launch::{CheckAfterStart, SpawnError};
use crate::procfs;
use crate::reaped_child::ReapedChild;
use crate::tracker::ProcessTracker;

/// Maximum wait for a process to disappear after SIGKILL. Only a stuck kernel takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// First pause between two checks whether the group is empty; each pause doubles the previous one.
const GROUP_POLL: Duration = Duration::from_millis(2);
/// How long the rest of a group may take after SIGTERM, once its leader has exited.
const GROUP_GRACE: Duration = Duration::from_millis(250);

/// A running child and its process group. Killed on drop.
#[derive(Debug)]
pub struct ChildProcess {
    handle: ReapedChild,
    group: Pid,
    child: ChildNumber,
    exit: Option<ExitStatus>,
    /// The group is empty, so its id may be reused and must not be signalled.
    is_group_gone: bool,
    tracker: ProcessTracker,
    recheck: Option<ExecutableRecheck>,
}

impl ChildProcess {
    pub(crate) fn new(
        handle: ReapedChild,
        group: Pid,
        child: ChildNumber,
        tracker: ProcessTracker,
    ) -> Self {
        Self {
            handle,
            group,
            child,
            exit: None,
            is_group_gone: false,
            tracker,
            recheck: None,
        }
    }

    /// Adds the recheck of the executable, and the error of a failed one.
    pub(crate) fn with_recheck(mut self, recheck: CheckAfterStart, changed: SpawnError) -> Self {
        self.recheck = Some(ExecutableRecheck { recheck, changed });
        self
    }

    /// Checks that the executed file is still the one that the resolver chose. The supervisor has
    /// done this once, immediately after the start. The interpreter of a script opens the script
    /// later, so call this again once the child has shown that it runs.
    pub async fn recheck_executable(&self) -> Result<(), SpawnError> {
        let Some(ExecutableRecheck { recheck, changed }) = &self.recheck else {
            return Ok(());
        };
        let recheck = Arc::clone(recheck);
        let checked = self.tracker.spawn_thread().run(move || recheck()).await;
        match checked {
            Ok(Ok(())) => Ok(()),
            _ => Err(changed.clone()),
        }
    }

    /// Waits until the child itself has exited. Other members of its group may still run.
    pub async fn wait(&mut self) -> ExitOutcome {
        if self.exit.is_none() {
            self.exit = self.handle.wait().await.ok();
        }
        ExitOutcome(self.exit)
    }

    /// Ends the child after its stdin was closed. Waits at most `after_eof` for the exit of the
    /// child. If the child still runs, sends SIGTERM to the group, waits at most `after_term`, then
    /// sends SIGKILL. Finally ends the other members of the group and, unless the child keeps its
    /// daemons, the processes that left the group.
    pub async fn shut_down(mut self, after_eof: Duration, after_term: Duration) -> ExitOutcome {
        if timeout(after_eof, self.wait()).await.is_err() {
            self.terminate();
            if timeout(after_term, self.wait()).await.is_err() {
                self.signal(Signal::KILL);
                let _ = timeout(KILL_TIMEOUT, self.wait()).await;
            }
        }
        self.end_group().await;
        self.tracker.end_daemons(self.child).await;
        ExitOutcome(self.exit)
    }

    /// Ends the members of the group that outlived its leader.
    async fn end_group(&mut self) {
        if self.exit.is_some() && !self.terminate() {
            self.is_group_gone = true;
            return;
        }
        if timeout(GROUP_GRACE, self.wait_for_group()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = timeout(KILL_TIMEOUT, self.wait_for_group()).await;
        }
        self.is_group_gone = !self.signal(Signal::KILL);
    }

    /// Waits until only zombies are left in the group.
    async fn wait_for_group(&self) {
        let mut pause = GROUP_POLL;
        while rustix::process::test_kill_process_group(self.group) != Err(Errno::SRCH)
            && procfs::is_group_alive(self.group)
        {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Sends SIGTERM, and SIGCONT because a stopped process does not handle SIGTERM. Returns false
    /// if the group is empty.
    fn terminate(&self) -> bool {
        self.signal(Signal::TERM) && self.signal(Signal::CONT)
    }

    /// Signals the group. Returns false if the group is empty.
    fn signal(&self, signal: Signal) -> bool {
        rustix::process::kill_process_group(self.group, signal) != Err(Errno::SRCH)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if !self.is_group_gone {
            self.signal(Signal::KILL);
        }
        // Reap before unregistering. A scan treats an exited child that is not registered as an
        // adopted orphan, and reaps it.
        let _ = self.handle.try_wait();
        let was_killed = !self.is_group_gone;
        self.tracker.unregister(self.group, self.child, was_killed);
    }
}

/// The recheck of a child whose executable was chosen by a resolver.
struct ExecutableRecheck {
    recheck: CheckAfterStart,
    changed: SpawnError,
}

impl fmt::Debug for ExecutableRecheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecutableRecheck")
    }
}

/// The exit code or signal of a program; unknown if the program could not be waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitOutcome(pub(crate) Option<ExitStatus>);

impl ExitOutcome {
    /// Returns true if the program exited with code 0.
    pub fn is_success(self) -> bool {
        self.0.is_some_and(|status| status.success())
    }

    /// The exit code, unless a signal ended the program.
    pub fn code(self) -> Option<i32> {
        self.0.and_then(|status| status.code())
    }
}

impl fmt::Display for ExitOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(status) = self.0 else {
            return f.write_str("exited with an unknown status");
        };
        match (status.code(), status.signal()) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => write!(f, "was killed by signal {signal}"),
            (None, None) => f.write_str("exited with an unknown status"),
        }
    }
}
