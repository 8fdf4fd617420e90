//! Starts the children of one host and ends them with everything they started.
//!
//! The supervisor combines the [spawn](crate::spawn) of a child with its registration in the
//! [tracker](crate::tracker). Invariants: if the future of [`ProcessSupervisor::start`] is dropped,
//! the child is killed; a child that is started after [`ProcessSupervisor::shut_down`] or
//! [`ProcessSupervisor::kill_all`] is killed at once.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::child_process::ChildProcess;
use crate::env_marker::{HostId, MARKER_VARIABLE};
use crate::guardian::Guardian;
use crate::launch::{ExecutableChanged, Launch, SpawnError};
use crate::spawn::{ChildPipes, spawn};
use crate::subreaper::Subreaper;
use crate::tracker::ProcessTracker;

/// The options of a [`ProcessSupervisor`].
#[derive(Debug)]
pub struct SupervisorOptions {
    /// Identifies the children of this supervisor, for scans and for crash recovery.
    pub host: HostId,
    /// Set if this process adopts orphans.
    pub subreaper: Option<Subreaper>,
    /// Ends the children if this process is killed.
    pub guardian: Option<Guardian>,
    /// Whether children may be started at all.
    pub spawning: Spawning,
}

impl SupervisorOptions {
    /// Options for a new host without subreaper and guardian.
    pub fn new() -> Self {
        Self {
            host: HostId::new(),
            subreaper: None,
            guardian: None,
            spawning: Spawning::Allowed,
        }
    }
}

impl Default for SupervisorOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a supervisor may start children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spawning {
    /// Children may be started.
    Allowed,
    /// Every start fails with [`SpawnError::SpawningDisabled`].
    Disabled,
}

/// Starts the children of one host and ends them. Clones refer to the same children.
#[derive(Clone, Debug)]
pub struct ProcessSupervisor {
    tracker: ProcessTracker,
    spawning: Spawning,
}

impl ProcessSupervisor {
    /// A supervisor without children.
    pub fn new(options: SupervisorOptions) -> Self {
        let guardian = options.guardian.map(Guardian::into_handle);
        Self {
            tracker: ProcessTracker::new(options.host, options.subreaper, guardian),
            spawning: options.spawning,
        }
    }

    /// Starts a child as the leader of a new session and process group, without a controlling
    /// terminal.
    pub async fn start(&self, launch: Launch) -> Result<(ChildProcess, ChildPipes), SpawnError> {
        let command = launch.command.clone();
        if self.spawning == Spawning::Disabled {
            return Err(SpawnError::SpawningDisabled { command });
        }
        let tracker = self.tracker.clone();
        // The job creates the `ChildProcess`, which kills the child on drop. If this future is
        // dropped, the child does not survive.
        let job = move || start_blocking(&tracker, launch);
        let started = self.tracker.spawn_thread().run(job).await;
        started.unwrap_or_else(|error| {
            let why = error.to_string();
            Err(SpawnError::Other { command, why })
        })
    }

    /// Kills the remaining process groups, then ends escaped processes with SIGTERM and, after a
    /// grace period, SIGKILL. Every later start fails.
    pub async fn shut_down(&self) {
        self.tracker.shut_down().await;
    }

    /// Kills the remaining process groups and all escaped processes. Blocks. Every later start
    /// fails.
    pub fn kill_all(&self) {
        self.tracker.kill_all();
    }

    /// Spawns a task that reaps adopted orphans until `stop`. Does nothing unless this process is a
    /// [`Subreaper`].
    pub fn spawn_orphan_reaper(&self, tasks: &TaskTracker, stop: CancellationToken) {
        self.tracker.spawn_orphan_reaper(tasks, stop);
    }
}

fn start_blocking(
    tracker: &ProcessTracker,
    mut launch: Launch,
) -> Result<(ChildProcess, ChildPipes), SpawnError> {
    let executable = launch.resolve_executable()?;
    let _spawning = tracker.lock_spawning();
    let marker = tracker.next_marker(launch.keep_daemons);
    let value = marker.nested_in(launch.parent_marker.as_deref());
    launch.env.insert(MARKER_VARIABLE.to_owned(), value);
    tracker.ensure_guardian();
    let spawned = spawn(&launch, executable.as_ref())?;
    let is_accepted = tracker.register(spawned.group, &marker);
    let process = ChildProcess::new(spawned.handle, spawned.group, marker.child, tracker.clone());
    if !is_accepted {
        return Err(SpawnError::Other {
            command: launch.command,
            why: "the host is shutting down".to_owned(),
        });
    }
    let Some(recheck) = executable.and_then(|executable| executable.recheck) else {
        return Ok((process, spawned.pipes));
    };
    // The file may have changed between the check and the start. Then `process` is dropped, which
    // kills the child.
    recheck().map_err(|ExecutableChanged| launch.changed())?;
    Ok((
        process.with_recheck(recheck, launch.changed()),
        spawned.pipes,
    ))
}
