//! The host's side of its guardian: a small process that outlives the host by a moment.
//!
//! A host that is killed with SIGKILL can clean up nothing. The kernel then closes the pipe between
//! host and guardian, and the guardian kills what remains ([`main_loop`]). The guardian is started
//! before the first child, gets a message for each process group that starts or ends, and is killed
//! once the host has ended all children itself. Invariant: the host never waits for its guardian,
//! except to reap it at the end.

mod main_loop;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, WaitOptions};

pub use main_loop::run_guardian;

use self::main_loop::Message;
use crate::env_marker::HostId;
use crate::lock::lock;

/// A small process that ends the children of a host if this process is killed.
///
/// It is a program that only calls [`run_guardian`]. A library cannot know how to start such a
/// program, so the embedding program passes the command here. Usually it is the embedding program
/// itself, with an argument that `main` checks before anything else:
///
/// ```no_run
/// use switchboard_process::{Guardian, ProcessSupervisor, SupervisorOptions, run_guardian};
///
/// fn main() {
///     if std::env::args().nth(1).as_deref() == Some("--guardian") {
///         run_guardian();
///         return;
///     }
///     let supervisor = ProcessSupervisor::new(SupervisorOptions {
///         guardian: Some(Guardian::new("/proc/self/exe", ["--guardian"])),
///         ..SupervisorOptions::new()
///     });
///     // …
/// }
/// ```
///
/// The guardian is started before the first child at the latest. It has its own session, an empty
/// environment and no open descriptors except a pipe and `/dev/null`. The host kills it after the
/// host has ended all children itself. Linux only: on other systems none is started.
#[derive(Debug)]
pub struct Guardian {
    handle: Arc<GuardianHandle>,
}

impl Guardian {
    /// A guardian that runs this program. `/proc/self/exe` is the running program, even if its file
    /// was replaced.
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            handle: Arc::new(GuardianHandle {
                program: program.into(),
                args: args.into_iter().map(Into::into).collect(),
                state: Mutex::new(GuardianState::NotStarted),
            }),
        }
    }

    /// Starts the guardian now, in the background, instead of with the first child. Saves the first
    /// child a millisecond or two.
    pub fn start_early(&self) {
        let handle = Arc::clone(&self.handle);
        let thread = std::thread::Builder::new().name("switchboard-guardian".to_owned());
        // If no thread can be started, the first child starts the guardian.
        let _ = thread.spawn(move || handle.ensure_started(&mut lock(&handle.state)));
    }

    pub(crate) fn into_handle(self) -> Arc<GuardianHandle> {
        self.handle
    }
}

/// Starts the guardian process, sends it messages and stops it.
#[derive(Debug)]
pub(crate) struct GuardianHandle {
    program: PathBuf,
    args: Vec<OsString>,
    state: Mutex<GuardianState>,
}

#[derive(Debug)]
enum GuardianState {
    /// No child needs a guardian yet, or the previous guardian process died.
    NotStarted,
    /// The process runs, but does not know its host yet.
    Started(GuardianProcess),
    /// The process knows its host and the groups of its children.
    Watching(GuardianProcess),
    /// The host is shutting down and the process was killed, or no process could be started
    /// (`None`).
    Stopped(Option<GuardianProcess>),
}

#[derive(Debug)]
struct GuardianProcess {
    pid: Pid,
    /// The kernel closes it when the host dies, and the guardian then cleans up.
    pipe: File,
}

impl GuardianHandle {
    /// Makes sure that a guardian runs and knows these process groups of the host.
    pub(crate) fn ensure_watching(&self, host: HostId, groups: &[Pid]) {
        let state = &mut *lock(&self.state);
        if let GuardianState::Watching(process) = state
            && !process.is_running()
        {
            *state = GuardianState::NotStarted;
        }
        self.ensure_started(state);
        match std::mem::replace(state, GuardianState::NotStarted) {
            GuardianState::Started(process) => {
                process.send(&Message::Host(host));
                for group in groups {
                    process.send(&Message::Started(*group));
                }
                *state = GuardianState::Watching(process);
            }
            other => *state = other,
        }
    }

    fn ensure_started(&self, state: &mut GuardianState) {
        if matches!(state, GuardianState::NotStarted) {
            *state = match start(&self.program, &self.args) {
                Ok(process) => GuardianState::Started(process),
                Err(error) => {
                    tracing::warn!(%error, "cannot start the guardian process");
                    GuardianState::Stopped(None)
                }
            };
        }
    }

    pub(crate) fn group_started(&self, group: Pid) {
        self.send(&Message::Started(group));
    }

    pub(crate) fn group_ended(&self, group: Pid) {
        self.send(&Message::Ended(group));
    }

    fn send(&self, message: &Message) {
        if let GuardianState::Watching(process) = &*lock(&self.state) {
            process.send(message);
        }
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        match &*lock(&self.state) {
            GuardianState::Started(process) | GuardianState::Watching(process) => Some(process.pid),
            GuardianState::NotStarted | GuardianState::Stopped(_) => None,
        }
    }

    /// Kills the guardian: the host has ended all children. The guardian is reaped on drop, so that
    /// it exits while the host finishes its own shutdown.
    pub(crate) fn stop(&self) {
        let state = &mut *lock(&self.state);
        match std::mem::replace(state, GuardianState::Stopped(None)) {
            GuardianState::Started(process) | GuardianState::Watching(process) => {
                // Kill first: a closed pipe would tell the guardian that the host died.
                let _ = rustix::process::kill_process(process.pid, Signal::KILL);
                *state = GuardianState::Stopped(Some(process));
            }
            GuardianState::Stopped(process) => *state = GuardianState::Stopped(process),
            GuardianState::NotStarted => {}
        }
    }
}

impl Drop for GuardianHandle {
    fn drop(&mut self) {
        self.stop();
        if let GuardianState::Stopped(Some(process)) = &mut *lock(&self.state) {
            process.reap();
        }
    }
}

impl GuardianProcess {
    fn new(pid: Pid, pipe: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let pipe = File::from(pipe);
        Ok(Self { pid, pipe })
    }

    /// Reaps the process if it has exited and returns false. Its pid may then be reused.
    fn is_running(&self) -> bool {
        let exited = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG);
        matches!(exited, Ok(None))
    }

    fn reap(&self) {
        let wait = || rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
        let _ = rustix::io::retry_on_intr(wait);
    }

    /// Sends a message, or drops it if the pipe is full: a guardian that does not read must not
    /// block its host.
    fn send(&self, message: &Message) {
        use std::io::Write as _;
        let sent = (&self.pipe).write_all(message.to_string().as_bytes());
        if let Err(error) = sent {
            tracing::debug!(%error, "cannot write to the guardian process");
        }
    }
}

fn start(program: &Path, args: &[OsString]) -> io::Result<GuardianProcess> {
    if !cfg!(target_os = "linux") {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the guardian is not a server's process and must outlive this one"
    )]
    let mut command = Command::new(program);
    // Only options with which the standard library uses `posix_spawn` instead of `fork`. The
    // guardian does the rest of its setup itself.
    command
        .args(args)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (Some(pid), Some(pipe)) = (pid, child.stdin.take()) else {
        return Err(io::Error::other(
            "the guardian process has no pid or no pipe",
        ));
    };
    GuardianProcess::new(pid, pipe.into())
}
