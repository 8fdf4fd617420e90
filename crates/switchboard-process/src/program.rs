//! Runs one helper program with the guarantees of a [`ProcessSupervisor`], without a host.
//!
//! Invariant: after a [`RunningProgram`] was shut down or dropped, the process group of the program
//! and, on Linux, all processes with its marker have been killed or have exited.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::child_process::{ChildProcess, ExitOutcome};
use crate::env_marker::MARKER_VARIABLE;
use crate::launch::{Launch, SpawnError};
use crate::spawn::ChildPipes;
use crate::supervisor::{ProcessSupervisor, SupervisorOptions};

/// A program to run.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example() -> Result<(), switchboard_process::ProgramError> {
/// use switchboard_process::Program;
///
/// let variables = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
/// let mut running = Program::new("cat").args(["-u"]).envs(variables).start().await?;
/// drop(running.take_streams()); // `cat` reads the end of its input
/// let exit = running.shut_down(Duration::from_secs(5), Duration::from_secs(5)).await;
/// assert_eq!(exit.code(), Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Program {
    command: String,
    args: Vec<String>,
    current_dir: Option<PathBuf>,
    envs: BTreeMap<String, String>,
}

impl Program {
    /// A program, by path or by name on the `PATH` of its environment.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            current_dir: None,
            envs: BTreeMap::new(),
        }
    }

    /// Appends arguments.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory. Default: that of this process.
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(directory.into());
        self
    }

    /// Adds environment variables. The program inherits none from this process.
    pub fn envs(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.envs.extend(variables);
        self
    }

    /// Starts the program as the leader of a new session and process group, without a controlling
    /// terminal. On Linux, the kernel kills the program if this process dies.
    pub async fn start(self) -> Result<RunningProgram, ProgramError> {
        let supervisor = ProcessSupervisor::new(SupervisorOptions::new());
        let launch = Launch {
            args: self.args,
            cwd: self.current_dir,
            parent_marker: self.envs.get(MARKER_VARIABLE).cloned(),
            env: self.envs,
            ..Launch::new(self.command)
        };
        let (process, pipes) = supervisor.start(launch).await.map_err(ProgramError)?;
        Ok(RunningProgram {
            process: Some(process),
            streams: Some(ProgramStreams::new(pipes)),
            supervisor,
        })
    }
}

impl fmt::Debug for Program {
    /// Omits the values of arguments and variables, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("current_dir", &self.current_dir)
            .field("envs", &self.envs.keys())
            .finish()
    }
}

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ProgramError(SpawnError);

impl ProgramError {
    /// Whether the program does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.0, SpawnError::NotFound { .. })
    }
}

/// The standard streams of a program. Read `stdout` and `stderr` continuously, or the program
/// blocks when a pipe is full.
#[non_exhaustive]
pub struct ProgramStreams {
    /// The program's input. Drop it to send the end of input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// The program's output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The program's diagnostics.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
}

impl ProgramStreams {
    fn new(pipes: ChildPipes) -> Self {
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

/// A running program. Dropping it kills the program and everything that the program started, except
/// for processes that left the process group and cleared their environment.
#[derive(Debug)]
pub struct RunningProgram {
    /// `None` only during shutdown and drop.
    process: Option<ChildProcess>,
    streams: Option<ProgramStreams>,
    supervisor: ProcessSupervisor,
}

impl RunningProgram {
    /// The streams of the program; `None` after the first call.
    pub fn take_streams(&mut self) -> Option<ProgramStreams> {
        self.streams.take()
    }

    /// Waits until the program itself has exited.
    pub async fn wait(&mut self) -> ExitOutcome {
        match &mut self.process {
            Some(process) => process.wait().await,
            None => ExitOutcome::default(),
        }
    }

    /// Drops the streams that were not taken, then ends the program. Waits at most `after_eof` for
    /// its exit. If the program still runs, sends SIGTERM to its group, waits at most `after_term`,
    /// then sends SIGKILL. Finally ends the other members of the group, and the processes that left
    /// the group.
    pub async fn shut_down(mut self, after_eof: Duration, after_term: Duration) -> ExitOutcome {
        self.streams = None;
        match self.process.take() {
            Some(process) => process.shut_down(after_eof, after_term).await,
            None => ExitOutcome::default(),
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.process = None;
        self.supervisor.kill_all();
    }
}
