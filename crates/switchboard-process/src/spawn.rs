//! Starts one child process as the leader of a new session and process group.
//!
//! Blocks; the supervisor calls it on its [spawn thread](crate::spawn_thread). Registering the
//! child and ending it are not done here. Invariant: on Linux, every [`SpawnMethod`] creates the
//! same child: own session without a controlling terminal, killed with its parent thread, no
//! inherited descriptors, no blocked signals.

mod close_fds;
#[cfg(target_os = "linux")]
mod exec;
mod fork;
#[cfg(target_os = "linux")]
mod vfork;

use std::io;

use rustix::process::Pid;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use crate::launch::{Launch, ResolvedExecutable, SpawnError};
use crate::reaped_child::ReapedChild;

/// The host's ends of the pipes to a child.
#[derive(Debug)]
pub struct ChildPipes {
    /// The child's input.
    pub stdin: ChildStdin,
    /// The child's output.
    pub stdout: ChildStdout,
    /// The child's diagnostics. The child blocks if nothing reads them.
    pub stderr: ChildStderr,
}

/// A child that was just started.
pub(crate) struct SpawnedChild {
    pub(crate) handle: ReapedChild,
    pub(crate) group: Pid,
    pub(crate) pipes: ChildPipes,
}

/// The system call that creates children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpawnMethod {
    /// Does not copy the page tables of this process.
    #[cfg(target_os = "linux")]
    Vfork,
    /// Used where `Vfork` does not work.
    Fork,
}

impl SpawnMethod {
    fn of_this_system() -> Self {
        #[cfg(target_os = "linux")]
        if vfork::is_supported() {
            return Self::Vfork;
        }
        Self::Fork
    }
}

/// Starts a child. Executes `executable` if given; otherwise searches `launch.command` on the
/// child's `PATH`.
pub(crate) fn spawn(
    launch: &Launch,
    executable: Option<&ResolvedExecutable>,
) -> Result<SpawnedChild, SpawnError> {
    spawn_with(SpawnMethod::of_this_system(), launch, executable)
}

fn spawn_with(
    method: SpawnMethod,
    launch: &Launch,
    executable: Option<&ResolvedExecutable>,
) -> Result<SpawnedChild, SpawnError> {
    if let Some(cwd) = launch.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(SpawnError::MissingDirectory(cwd.clone()));
    }
    let spawned = match method {
        #[cfg(target_os = "linux")]
        SpawnMethod::Vfork => vfork::start(launch, executable),
        SpawnMethod::Fork => fork::start(launch, executable),
    };
    spawned.map_err(|error| spawn_error(&error, launch, executable))
}

fn spawn_error(
    error: &io::Error,
    launch: &Launch,
    executable: Option<&ResolvedExecutable>,
) -> SpawnError {
    let command = launch.command.clone();
    let was_searched = executable.is_none() && !command.contains('/');
    let path = match executable {
        Some(executable) => executable.path.clone(),
        None => launch.working_directory().join(&command),
    };
    match error.kind() {
        // The kernel reports a missing interpreter as if the script itself were missing.
        io::ErrorKind::NotFound if !was_searched && path.is_file() => {
            let why = "the program named in its first line is missing".to_owned();
            SpawnError::NotExecutable { command, why }
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SpawnError::NotFound {
            command,
            searched: launch.searched_in(),
        },
        io::ErrorKind::PermissionDenied => {
            let why = if path.is_dir() {
                "it is a directory".to_owned()
            } else {
                permission_advice(&command)
            };
            SpawnError::NotExecutable { command, why }
        }
        _ => SpawnError::Other {
            command,
            why: error.to_string(),
        },
    }
}

/// Describes a missing permission. Names a command to paste only if no shell would interpret a
/// character of the path.
fn permission_advice(command: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if command.bytes().all(is_plain) {
        format!("no permission (try: chmod +x {command})")
    } else {
        "no permission (make it executable with chmod +x)".to_owned()
    }
}

#[cfg(test)]
mod tests;
