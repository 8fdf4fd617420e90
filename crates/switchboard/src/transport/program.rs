//! A program that is started for the embedding program itself, not as a server of a host.
//!
//! It is started and ended as servers are, with the same care. Invariant: when a [`RunningProgram`]
//! is gone, whether it was shut down or dropped, so is everything that it started.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use switchboard_config::Profile;
use tokio::io::{AsyncRead, AsyncWrite};

use super::children::{Care, Children};
use super::process::{Exit, Launch, Pipes, Process, SpawnError};
use super::tag::{self, HostTag};

/// A program to start, of which nothing is to survive.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example() -> Result<(), switchboard::process::NotStarted> {
/// use switchboard::process::Program;
///
/// let variables = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
/// let mut running = Program::new("cat").args(["-u"]).environment(variables).start().await?;
/// drop(running.take_streams()); // `cat` sees the end of its input
/// let exit = running.shut_down(Duration::from_secs(5), Duration::from_secs(5)).await;
/// assert_eq!(exit.code(), Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Program {
    command: String,
    args: Vec<String>,
    folder: Option<PathBuf>,
    environment: BTreeMap<String, String>,
}

impl Program {
    /// A program by its path, or by its name on the `PATH` of its own environment.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            folder: None,
            environment: BTreeMap::new(),
        }
    }

    /// What it is called with, after what was given before.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Where it works; without, where this process does.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Variables that it gets, beside what was given before. It inherits none.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Starts it as the leader of a process group, to be killed when this process dies.
    pub async fn start(self) -> Result<RunningProgram, NotStarted> {
        let children = Children::new(Care {
            tag: HostTag::new(),
            adoption: None,
            guardian: None,
            profile: Profile::Local,
        });
        let launch = Launch {
            command: self.command,
            args: self.args,
            cwd: self.folder,
            outer_mark: self.environment.get(tag::VARIABLE).cloned(),
            env: self.environment,
            keeps_daemons: false,
            seal: None,
            file: None,
        };
        let (process, pipes) = children.start(launch).await.map_err(NotStarted)?;
        Ok(RunningProgram {
            process: Some(process),
            streams: Some(ProgramStreams::new(pipes)),
            children,
        })
    }
}

impl fmt::Debug for Program {
    /// Without the values of variables and arguments, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("folder", &self.folder)
            .field("environment", &self.environment.keys())
            .finish()
    }
}

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct NotStarted(SpawnError);

impl NotStarted {
    /// Whether there is no such program.
    pub fn is_not_found(&self) -> bool {
        matches!(self.0, SpawnError::NotFound { .. })
    }
}

/// The three streams of a program. Its stderr is to be read all the time, so that it never blocks on it.
#[non_exhaustive]
pub struct ProgramStreams {
    /// What it reads. Dropped, it is at its end.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it says.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it says beside that.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
}

impl ProgramStreams {
    fn new(pipes: Pipes) -> Self {
        Self {
            stdin: Box::new(pipes.stdin),
            stdout: Box::new(pipes.stdout),
            stderr: Box::new(pipes.stderr),
        }
    }
}

impl fmt::Debug for ProgramStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgramStreams")
    }
}

/// A program that runs. Dropped, it is killed at once, with all that it started.
#[derive(Debug)]
pub struct RunningProgram {
    /// `None` only at the end of the end.
    process: Option<Process>,
    streams: Option<ProgramStreams>,
    children: Children,
}

impl RunningProgram {
    /// Its streams, the first time.
    pub fn take_streams(&mut self) -> Option<ProgramStreams> {
        self.streams.take()
    }

    /// Comes back when the program itself has exited.
    pub async fn exited(&mut self) -> Exit {
        match &mut self.process {
            Some(process) => process.exited().await,
            None => Exit::default(),
        }
    }

    /// Sees it off after its stdin was closed: waits, then SIGTERM, then SIGKILL, to its whole group,
    /// then to what left it.
    pub async fn shut_down(mut self, after_eof: Duration, after_term: Duration) -> Exit {
        self.streams = None;
        match self.process.take() {
            Some(process) => process.shut_down(after_eof, after_term).await,
            None => Exit::default(),
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.process = None;
        self.children.kill_all();
    }
}
