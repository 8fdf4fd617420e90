//! The host's side of its guardian: a small process that outlives it by a moment.
//!
//! A host that is killed can end nothing any more. Its guardian notices, because the pipe between
//! the two closes, and ends what is left ([`watch`]). It is started before the first child, told
//! which groups there are, and killed when the host has ended everything itself. Invariant: nothing
//! here makes the host wait for its guardian, except for that last moment.

mod watch;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::process::Pid;

pub use watch::keep_watch;

use super::tag::HostTag;
use crate::sync::lock;

/// How a guardian is started: a program that calls [`keep_watch`] and does nothing else.
///
/// A library cannot know how to do that, so it is said here. Usually it is the embedding program
/// itself, with an argument that it looks for first thing in `main`, before it reads anything else:
///
/// ```no_run
/// # use switchboard::process::{GuardianCommand, keep_watch};
/// fn main() {
///     if std::env::args().nth(1).as_deref() == Some("--guardian") {
///         keep_watch();
///         return;
///     }
///     let guardian = GuardianCommand::new("/proc/self/exe").arg("--guardian");
///     let host = switchboard::Host::builder().guardian(guardian);
///     // …
/// }
/// ```
#[derive(Clone, Debug)]
pub struct GuardianCommand {
    program: PathBuf,
    args: Vec<OsString>,
}

impl GuardianCommand {
    /// The program. `/proc/self/exe` is the running one, even if its file was replaced.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// The place where a guardian stands, or will.
#[derive(Debug)]
pub(crate) struct Post {
    command: GuardianCommand,
    host: HostTag,
    stand: Mutex<Stand>,
}

#[derive(Debug)]
enum Stand {
    /// There is no child to be guarded yet, or the guardian was killed by somebody.
    Empty,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "guardians are for Linux")
    )]
    Manned(Guardian),
    /// The host is at its end, or no guardian can be had.
    Closed,
}

/// A guardian that stands watch.
#[derive(Debug)]
struct Guardian {
    child: std::process::Child,
    /// Closed by the kernel when the host is gone, and by nobody else.
    pipe: std::process::ChildStdin,
}

impl Post {
    pub(crate) fn new(command: GuardianCommand, host: HostTag) -> Self {
        Self {
            command,
            host,
            stand: Mutex::new(Stand::Empty),
        }
    }

    /// Sees to it that somebody stands watch, and knows these groups.
    pub(crate) fn man(&self, groups: &[Pid]) {
        let mut stand = lock(&self.stand);
        let is_settled = match &mut *stand {
            Stand::Closed => true,
            Stand::Manned(guardian) => matches!(guardian.child.try_wait(), Ok(None)),
            Stand::Empty => false,
        };
        if is_settled {
            return;
        }
        match start(&self.command) {
            Ok(guardian) => {
                guardian.tell(&watch::Message::Host(self.host, watch::own_session()));
                for group in groups {
                    guardian.tell(&watch::Message::Began(*group));
                }
                *stand = Stand::Manned(guardian);
            }
            Err(error) => {
                tracing::warn!(%error, "no guardian could be started");
                *stand = Stand::Closed;
            }
        }
    }

    pub(crate) fn group_began(&self, group: Pid) {
        self.tell(&watch::Message::Began(group));
    }

    pub(crate) fn group_ended(&self, group: Pid) {
        self.tell(&watch::Message::Ended(group));
    }

    fn tell(&self, message: &watch::Message) {
        if let Stand::Manned(guardian) = &*lock(&self.stand) {
            guardian.tell(message);
        }
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        match &*lock(&self.stand) {
            Stand::Manned(guardian) => Pid::from_raw(i32::try_from(guardian.child.id()).ok()?),
            _ => None,
        }
    }

    /// The host has ended everything: nobody needs to stand watch any more.
    pub(crate) fn dismiss(&self) {
        let stand = std::mem::replace(&mut *lock(&self.stand), Stand::Closed);
        if let Stand::Manned(mut guardian) = stand {
            // Killed before the pipe closes, so that it does not take this for the host's death.
            let _ = guardian.child.kill();
            let _ = guardian.child.wait();
            drop(guardian.pipe);
        }
    }
}

impl Guardian {
    /// Says something, if there is room: a guardian that does not read must not stop its host.
    fn tell(&self, message: &watch::Message) {
        use std::io::Write as _;
        let told = (&self.pipe).write_all(message.to_string().as_bytes());
        if let Err(error) = told {
            tracing::debug!(%error, "the guardian could not be told");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn start(_: &GuardianCommand) -> io::Result<Guardian> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "a session of its own is made between fork and exec"
)]
fn start(command: &GuardianCommand) -> io::Result<Guardian> {
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;

    #[expect(
        clippy::disallowed_methods,
        reason = "the guardian is no server's process, and must outlive this one"
    )]
    let mut guardian = std::process::Command::new(&command.program);
    guardian
        .args(&command.args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe {
        guardian.pre_exec(|| {
            rustix::process::setsid()?;
            keep_nothing_open();
            ignore_signals();
            Ok(())
        });
    }
    let mut child = guardian.spawn()?;
    let Some(pipe) = child.stdin.take() else {
        return Err(io::Error::other("it has no pipe"));
    };
    rustix::io::ioctl_fionbio(&pipe, true)?;
    Ok(Guardian { child, pipe })
}

/// What the embedding program has open and did not mark stays here, except for the three standard
/// streams. (Before Linux 5.11 it goes along.)
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no such call")]
fn keep_nothing_open() {
    let (first, last) = (3, libc::c_uint::MAX);
    // SAFETY: marks descriptors to be closed by exec, and touches no memory.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            last,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}

/// Whoever ends the host by signals to everything in sight shall not end its guardian first.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no such call")]
fn ignore_signals() {
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGPIPE,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ] {
        // SAFETY: sets a disposition, which exec keeps, and installs no handler.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
