//! A child process, and its end.
//!
//! A child leads a process group of its own and dies with us. Invariant: when a [`Process`] is
//! gone, whether it was shut down or dropped, so is everything in its group. What left the group is
//! the affair of [`Children`].

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use switchboard_config::{Broken, Seal};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::children::Children;
use super::fork;
use super::leader::Leader;
use super::procfs;
#[cfg(target_os = "linux")]
use super::vfork;

/// How long is waited for a child after SIGKILL: only a kernel that is stuck keeps it.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// The first pause between two looks whether the rest of a group is gone; each is twice the last.
const GROUP_POLL: Duration = Duration::from_millis(2);
/// How long the rest of a group may take after SIGTERM, when its leader has left.
const GROUP_GRACE: Duration = Duration::from_millis(250);

/// What to start.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) cwd: Option<PathBuf>,
    /// The whole environment, but for the mark.
    pub(crate) env: BTreeMap<String, String>,
    /// The mark that this process carries itself, if it is a child of a host.
    pub(crate) outer_mark: Option<String>,
    /// What leaves the child's group may stay.
    pub(crate) keeps_daemons: bool,
    /// What must hold for it to be started.
    pub(crate) seal: Option<Seal>,
    /// The file that the command means, where that is settled: no other is searched for.
    pub(crate) file: Option<PathBuf>,
}

impl Launch {
    /// Settles which file is executed, where a seal says it. What is searched for twice may be found
    /// at two places.
    pub(super) fn settle(&mut self) -> Result<(), SpawnError> {
        let Some(seal) = &self.seal else {
            return Ok(());
        };
        let command = || self.command.clone();
        match seal.open() {
            Ok(Some(file)) => self.file = Some(file),
            Ok(None) => {
                return Err(SpawnError::NotFound {
                    command: command(),
                    sought: Sought::of(self),
                });
            }
            Err(Broken) => {
                return Err(SpawnError::Changed { command: command() });
            }
        }
        Ok(())
    }

    /// The folder that the child works in, and that a relative command counts from.
    fn folder(&self) -> PathBuf {
        let ours = || std::env::current_dir().unwrap_or_default();
        match &self.cwd {
            Some(folder) if folder.is_absolute() => folder.clone(),
            Some(folder) => ours().join(folder),
            None => ours(),
        }
    }
}

/// Why nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("command not found: {command}")]
    NotFound { command: String, sought: Sought },
    #[error("{command} cannot be executed: {why}")]
    NotExecutable { command: String, why: String },
    #[error("the working directory {} does not exist", .0.display())]
    NoDirectory(PathBuf),
    #[error("{command} was not started: with the profile `server` no program is executed")]
    Barred { command: String },
    #[error("{command} was not started: the program is no longer the one that was approved")]
    Changed { command: String },
    #[error("{command} could not be started: {why}")]
    Other { command: String, why: String },
}

/// Where a command was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    OnThePath,
    /// There was none.
    WithoutPath,
    AtItsPlace,
    /// It is relative to this folder.
    From(PathBuf),
}

impl Sought {
    fn of(launch: &Launch) -> Self {
        match &launch.command {
            command if Path::new(command).is_absolute() => Self::AtItsPlace,
            command if command.contains('/') => Self::From(launch.folder()),
            _ if launch.env.contains_key("PATH") => Self::OnThePath,
            _ => Self::WithoutPath,
        }
    }
}

/// The three streams of a child.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// A child that was just started.
pub(super) struct Spawned {
    pub(super) leader: Leader,
    pub(super) group: Pid,
    pub(super) pipes: Pipes,
}

/// A running child and its group.
#[derive(Debug)]
pub(crate) struct Process {
    leader: Leader,
    group: Pid,
    /// Which of the host's children it is.
    number: u64,
    exit: Option<ExitStatus>,
    /// Nothing of the group is left: its number may belong to somebody else by now.
    is_over: bool,
    children: Children,
}

/// How a child comes to be. It notices no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Without a copy of this process.
    #[cfg(target_os = "linux")]
    Vfork,
    /// Wherever that cannot be had.
    Fork,
}

impl Way {
    fn of_this_system() -> Self {
        #[cfg(target_os = "linux")]
        if vfork::is_possible() {
            return Self::Vfork;
        }
        Self::Fork
    }
}

/// Starts a child as the leader of a new group.
pub(super) fn spawn(launch: &Launch) -> Result<Spawned, SpawnError> {
    spawn_by(Way::of_this_system(), launch)
}

fn spawn_by(way: Way, launch: &Launch) -> Result<Spawned, SpawnError> {
    if let Some(cwd) = launch.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(SpawnError::NoDirectory(cwd.clone()));
    }
    let spawned = match way {
        #[cfg(target_os = "linux")]
        Way::Vfork => vfork::start(launch),
        Way::Fork => fork::start(launch),
    };
    spawned.map_err(|error| spawn_error(&error, launch))
}

impl Process {
    pub(super) fn new(leader: Leader, group: Pid, number: u64, children: Children) -> Self {
        Self {
            leader,
            group,
            number,
            exit: None,
            is_over: false,
            children,
        }
    }

    /// Comes back when the child itself has exited.
    pub(crate) async fn exited(&mut self) -> Exit {
        if self.exit.is_none() {
            self.exit = self.leader.wait().await.ok();
        }
        Exit(self.exit)
    }

    /// Sees the child off after its stdin was closed: waits, then SIGTERM, then SIGKILL, to the
    /// whole group, then to what left it. Nothing of it is left afterwards.
    pub(crate) async fn shut_down(mut self, after_eof: Duration, after_term: Duration) -> Exit {
        if timeout(after_eof, self.exited()).await.is_err() {
            self.ask_to_leave();
            if timeout(after_term, self.exited()).await.is_err() {
                self.signal(Signal::KILL);
                let _ = timeout(AFTER_KILL, self.exited()).await;
            }
        }
        self.end_group().await;
        self.children.end_daemons(self.number).await;
        Exit(self.exit)
    }

    /// The leader has left: what it left behind in its group goes too.
    async fn end_group(&mut self) {
        if self.exit.is_some() && !self.ask_to_leave() {
            self.is_over = true;
            return;
        }
        if timeout(GROUP_GRACE, self.group_gone()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = timeout(AFTER_KILL, self.group_gone()).await;
        }
        self.is_over = !self.signal(Signal::KILL);
    }

    async fn group_gone(&self) {
        let mut pause = GROUP_POLL;
        while rustix::process::test_kill_process_group(self.group) != Err(Errno::SRCH)
            && procfs::is_group_alive(self.group)
        {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// SIGTERM, also for those who were stopped. False when nobody is left.
    fn ask_to_leave(&self) -> bool {
        self.signal(Signal::TERM) && self.signal(Signal::CONT)
    }

    /// Signals the group; false when nobody is left in it.
    fn signal(&self, signal: Signal) -> bool {
        rustix::process::kill_process_group(self.group, signal) != Err(Errno::SRCH)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::KILL);
        }
        // Waited for while its number is still in the books, if it is gone already.
        let _ = self.leader.try_wait();
        self.children.leave(self.group, self.number, !self.is_over);
    }
}

/// How a program ended; unknown when it could not be waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit(Option<ExitStatus>);

impl Exit {
    /// Whether it says that all went well.
    pub fn is_success(self) -> bool {
        self.0.is_some_and(|status| status.success())
    }

    /// What it exited with, unless a signal ended it.
    pub fn code(self) -> Option<i32> {
        self.0.and_then(|status| status.code())
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(status) = self.0 else {
            return f.write_str("is gone");
        };
        match (status.code(), status.signal()) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => write!(f, "was killed by signal {signal}"),
            (None, None) => f.write_str("is gone"),
        }
    }
}

fn spawn_error(error: &io::Error, launch: &Launch) -> SpawnError {
    let command = launch.command.clone();
    let is_settled = launch.file.is_some() || command.contains('/');
    let named = || launch.folder().join(&command);
    let place = launch.file.clone().unwrap_or_else(named);
    match error.kind() {
        io::ErrorKind::NotFound if is_settled && place.is_file() => {
            let why = "the program named in its first line is missing".to_owned();
            SpawnError::NotExecutable { command, why }
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SpawnError::NotFound {
            command,
            sought: Sought::of(launch),
        },
        io::ErrorKind::PermissionDenied => {
            let why = if place.is_dir() {
                "it is a directory".to_owned()
            } else {
                format!("no permission (try: chmod +x {})", launch.command)
            };
            SpawnError::NotExecutable { command, why }
        }
        _ => SpawnError::Other {
            command,
            why: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests;
