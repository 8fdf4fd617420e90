//! The description of a child process to start, and the error if it cannot be started.
//!
//! This module starts nothing; see [`spawn`](crate::spawn). Invariant: if a [`Launch`] has a
//! resolver, no other file than the one it returns is executed, and a child whose file fails the
//! recheck is killed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program to start, with its arguments, working directory and environment.
#[derive(Clone)]
pub struct Launch {
    /// A path, or a name that is searched on the `PATH` of `env`.
    pub command: String,
    /// Arguments after the program name.
    pub args: Vec<String>,
    /// Working directory of the child; the host's if `None`. If `command` is a relative path, it is
    /// resolved in this directory.
    pub cwd: Option<PathBuf>,
    /// The complete environment of the child, except for the marker that the supervisor adds.
    pub env: BTreeMap<String, String>,
    /// The marker of this process, if it is itself the child of a host. The child's marker is
    /// appended to it, so that the outer host still finds the child.
    pub parent_marker: Option<String>,
    /// Processes that leave the child's process group survive the child.
    pub keep_daemons: bool,
    /// Determines which file is executed for `command`, instead of a search on the `PATH`.
    pub resolver: Option<ExecutableResolver>,
}

impl Launch {
    /// A launch of `command` without arguments and with an empty environment, in the working
    /// directory of this process.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            parent_marker: None,
            keep_daemons: false,
            resolver: None,
        }
    }

    /// Runs the resolver and returns the file to execute. `None` means that there is no resolver
    /// and that `command` is searched on the `PATH`.
    pub(crate) fn resolve_executable(&self) -> Result<Option<ResolvedExecutable>, SpawnError> {
        let Some(resolver) = &self.resolver else {
            return Ok(None);
        };
        match (resolver.0)() {
            Ok(Some(executable)) => Ok(Some(executable)),
            Ok(None) => Err(SpawnError::NotFound {
                command: self.command.clone(),
                searched: self.searched_in(),
            }),
            Err(ExecutableChanged) => Err(self.changed()),
        }
    }

    /// The error for an executable that is not the approved one.
    pub(crate) fn changed(&self) -> SpawnError {
        SpawnError::Changed {
            command: self.command.clone(),
        }
    }

    /// The absolute working directory of the child.
    pub(crate) fn working_directory(&self) -> PathBuf {
        let host_directory = || std::env::current_dir().unwrap_or_default();
        match &self.cwd {
            Some(cwd) if cwd.is_absolute() => cwd.clone(),
            Some(cwd) => host_directory().join(cwd),
            None => host_directory(),
        }
    }

    /// Where `command` is searched if there is no resolver.
    pub(crate) fn searched_in(&self) -> SearchedIn {
        match &self.command {
            command if Path::new(command).is_absolute() => SearchedIn::AbsolutePath,
            command if command.contains('/') => SearchedIn::Directory(self.working_directory()),
            _ if self.env.contains_key("PATH") => SearchedIn::Path,
            _ => SearchedIn::DefaultPath,
        }
    }
}

impl fmt::Debug for Launch {
    /// Omits the values of arguments and variables, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("keep_daemons", &self.keep_daemons)
            .finish_non_exhaustive()
    }
}

/// Finds the file to execute for a command, immediately before the child is started.
///
/// The function runs on the spawn thread and may block.
#[derive(Clone)]
pub struct ExecutableResolver(Arc<ResolveExecutable>);

/// Returns the file to execute, or `None` if there is no such program.
type ResolveExecutable =
    dyn Fn() -> Result<Option<ResolvedExecutable>, ExecutableChanged> + Send + Sync;

impl ExecutableResolver {
    /// A resolver that calls `resolve` for every start. `Ok(None)` means that the program does not
    /// exist.
    pub fn new(
        resolve: impl Fn() -> Result<Option<ResolvedExecutable>, ExecutableChanged>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(resolve))
    }
}

impl fmt::Debug for ExecutableResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecutableResolver")
    }
}

/// The file that a resolver chose for a command.
pub struct ResolvedExecutable {
    /// The path of the file.
    pub path: PathBuf,
    /// The file itself, open for reading. On Linux, this open file is executed even if another file
    /// has replaced it at `path` in the meantime. A script must be executed by path (`None`),
    /// because its interpreter opens it by path.
    pub file: Option<File>,
    /// Checks that the file has not changed since it was resolved.
    pub recheck: Option<CheckAfterStart>,
}

impl From<PathBuf> for ResolvedExecutable {
    fn from(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            recheck: None,
        }
    }
}

impl fmt::Debug for ResolvedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedExecutable")
            .field("path", &self.path)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Checks an executable again. Called on the spawn thread immediately after the start, and again by
/// [`ChildProcess::recheck_executable`](crate::ChildProcess::recheck_executable).
pub type CheckAfterStart = Arc<dyn Fn() -> Result<(), ExecutableChanged> + Send + Sync>;

/// The command no longer refers to the program that was approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program is no longer the one that was approved")]
pub struct ExecutableChanged;

/// Why a child was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum SpawnError {
    #[error("command not found: {command}")]
    NotFound {
        command: String,
        searched: SearchedIn,
    },
    #[error("{command} cannot be executed: {why}")]
    NotExecutable { command: String, why: String },
    #[error("the working directory {} does not exist", .0.display())]
    MissingDirectory(PathBuf),
    #[error("{command} was not started: this host may not start programs")]
    SpawningDisabled { command: String },
    #[error("{command} was not started: {ExecutableChanged}")]
    Changed { command: String },
    #[error("{command} could not be started: {why}")]
    Other { command: String, why: String },
}

/// Where a command was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchedIn {
    /// On the `PATH` of the child's environment.
    Path,
    /// On the system's default path: the child's environment has no `PATH`.
    DefaultPath,
    /// The command is an absolute path.
    AbsolutePath,
    /// The command is a path relative to this directory.
    Directory(PathBuf),
}
