//! The host's side of its guardian: a small process that outlives it by a moment.
//!
//! A host that is killed can end nothing any more. Its guardian notices, because the pipe between
//! the two closes, and ends what is left ([`watch`]). It is started before the first child (as a
//! [`copy`] of this process, where that can be), told which groups there are, and killed when the
//! host has ended everything itself. Invariant: nothing here makes the host wait for its guardian,
//! except for that last moment.

mod copy;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, WaitOptions};

pub use watch::keep_watch;

use super::tag::HostTag;
use crate::sync::lock;

/// A small process that ends what is left of a host's servers if this process is killed.
///
/// It is a program that calls [`keep_watch`] and does nothing else. A library cannot know how to
/// start one, so it is said here. Usually it is the embedding program itself, with an argument that
/// it looks for first thing in `main`, before it reads anything else:
///
/// ```no_run
/// # use switchboard::process::{Guardian, keep_watch};
/// fn main() {
///     if std::env::args().nth(1).as_deref() == Some("--guardian") {
///         keep_watch();
///         return;
///     }
///     let guardian = Guardian::new("/proc/self/exe", ["--guardian"]);
///     let host = switchboard::Host::builder().guardian(guardian);
///     // …
/// }
/// ```
///
/// It is started before the first child of its host at the latest, in a session of its own, with an
/// empty environment and nothing open but a pipe, and it is gone when its host has ended everything
/// itself. Linux only: elsewhere none is started.
#[derive(Debug)]
pub struct Guardian {
    post: Arc<Post>,
}

impl Guardian {
    /// A guardian of this program. `/proc/self/exe` is the running one, even if its file was replaced.
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let post = Post {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            stand: Mutex::new(Stand::Empty),
        };
        Self {
            post: Arc::new(post),
        }
    }

    /// Starts it now: for programs in which every millisecond to the first child counts.
    ///
    /// As long as this process has only one thread, its guardian is a copy of it (a fork) that lets
    /// go of everything and keeps watch, and no program has to be loaded: best called before a
    /// runtime is made. Later the program is started, in the background.
    pub fn call_up(&self) {
        if self.post.copy() {
            return;
        }
        let post = Arc::clone(&self.post);
        let thread = std::thread::Builder::new().name("switchboard-call".to_owned());
        // Failing that, it is started later.
        let _ = thread.spawn(move || post.call_up(&mut lock(&post.stand)));
    }

    pub(crate) fn into_post(self) -> Arc<Post> {
        self.post
    }
}

/// The place where a guardian stands, or will.
#[derive(Debug)]
pub(crate) struct Post {
    program: PathBuf,
    args: Vec<OsString>,
    stand: Mutex<Stand>,
}

#[derive(Debug)]
enum Stand {
    /// There is no child to be guarded yet, or the guardian was killed by somebody.
    Empty,
    /// It does not know its host yet.
    CalledUp(Watchman),
    Manned(Watchman),
    /// The host is at its end, or no guardian can be had.
    Closed(Option<Watchman>),
}

/// The process.
#[derive(Debug)]
struct Watchman {
    pid: Pid,
    /// Closed by the kernel when the host is gone, and not before it is killed.
    pipe: File,
}

impl Post {
    /// Sees to it that somebody stands watch, and knows these groups of the host.
    pub(crate) fn man(&self, host: HostTag, groups: &[Pid]) {
        let stand = &mut *lock(&self.stand);
        if let Stand::Manned(watchman) = stand
            && !watchman.is_there()
        {
            *stand = Stand::Empty;
        }
        self.call_up(stand);
        match std::mem::replace(stand, Stand::Empty) {
            Stand::CalledUp(watchman) => {
                watchman.tell(&watch::Message::Host(host, watch::own_session()));
                for group in groups {
                    watchman.tell(&watch::Message::Began(*group));
                }
                *stand = Stand::Manned(watchman);
            }
            other => *stand = other,
        }
    }

    /// Mans an empty post with a copy of this process. False: there is none.
    fn copy(&self) -> bool {
        let stand = &mut *lock(&self.stand);
        if !matches!(stand, Stand::Empty) {
            return true;
        }
        match copy::start(&self.args) {
            Ok(watchman) => *stand = Stand::CalledUp(watchman),
            Err(error) => tracing::debug!(%error, "the guardian is no copy"),
        }
        matches!(stand, Stand::CalledUp(_))
    }

    fn call_up(&self, stand: &mut Stand) {
        if matches!(stand, Stand::Empty) {
            *stand = match start(&self.program, &self.args) {
                Ok(watchman) => Stand::CalledUp(watchman),
                Err(error) => {
                    tracing::warn!(%error, "no guardian could be started");
                    Stand::Closed(None)
                }
            };
        }
    }

    pub(crate) fn group_began(&self, group: Pid) {
        self.tell(&watch::Message::Began(group));
    }

    pub(crate) fn group_ended(&self, group: Pid) {
        self.tell(&watch::Message::Ended(group));
    }

    fn tell(&self, message: &watch::Message) {
        if let Stand::Manned(watchman) = &*lock(&self.stand) {
            watchman.tell(message);
        }
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        match &*lock(&self.stand) {
            Stand::CalledUp(watchman) | Stand::Manned(watchman) => Some(watchman.pid),
            Stand::Empty | Stand::Closed(_) => None,
        }
    }

    /// The host has ended everything: nobody needs to stand watch any more. It is waited for when
    /// this is dropped, so that its end and the host's take no time one after the other.
    pub(crate) fn dismiss(&self) {
        let stand = &mut *lock(&self.stand);
        match std::mem::replace(stand, Stand::Closed(None)) {
            Stand::CalledUp(watchman) | Stand::Manned(watchman) => {
                // Before the pipe closes, so that it does not take this for the host's death.
                let _ = rustix::process::kill_process(watchman.pid, Signal::KILL);
                *stand = Stand::Closed(Some(watchman));
            }
            Stand::Closed(leaving) => *stand = Stand::Closed(leaving),
            Stand::Empty => {}
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.dismiss();
        if let Stand::Closed(Some(watchman)) = &mut *lock(&self.stand) {
            watchman.see_off();
        }
    }
}

impl Watchman {
    /// The guardian with this number, and our end of its pipe.
    fn new(pid: Pid, pipe: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let pipe = File::from(pipe);
        Ok(Self { pid, pipe })
    }

    /// False: it has ended, and its number may be somebody else's from now on.
    fn is_there(&self) -> bool {
        let ended = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG);
        matches!(ended, Ok(None))
    }

    fn see_off(&self) {
        let wait = || rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
        let _ = rustix::io::retry_on_intr(wait);
    }

    /// Says something, if there is room: a guardian that does not read must not stop its host.
    fn tell(&self, message: &watch::Message) {
        use std::io::Write as _;
        let told = (&self.pipe).write_all(message.to_string().as_bytes());
        if let Err(error) = told {
            tracing::debug!(%error, "the guardian could not be told");
        }
    }
}

fn start(program: &Path, args: &[OsString]) -> io::Result<Watchman> {
    if !cfg!(target_os = "linux") {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the guardian is no server's process, and must outlive this one"
    )]
    let mut command = Command::new(program);
    // Nothing that needs a fork instead of a spawn, which does not copy this process: the rest of its
    // preparations the guardian makes itself.
    command
        .args(args)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (Some(pid), Some(pipe)) = (pid, child.stdin.take()) else {
        return Err(io::Error::other("it has no number or no pipe"));
    };
    Watchman::new(pid, pipe.into())
}
