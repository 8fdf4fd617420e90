//! The process that a host started itself: the leader of a child's group.
//!
//! It can be waited for, by whichever means it was started. Invariant: one that is dropped is killed
//! and taken leave of, also when the runtime is gone by then, so that no zombie stays.

use std::io;
use std::process::ExitStatus;

use tokio::process::Child;

/// The leader of a group.
#[derive(Debug)]
pub(super) enum Leader {
    #[cfg(target_os = "linux")]
    Watched(Watched),
    /// The runtime sees to it (`kill_on_drop`).
    Forked(Child),
}

impl Leader {
    /// Comes back when it has ended.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Watched(watched) => watched.wait().await,
            Self::Forked(child) => child.wait().await,
        }
    }

    /// How it ended, if it has.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Watched(watched) => watched.try_wait(),
            Self::Forked(child) => child.try_wait(),
        }
    }
}

#[cfg(target_os = "linux")]
pub(super) use watched::Watched;

#[cfg(target_os = "linux")]
mod watched {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::Arc;

    use rustix::io::retry_on_intr;
    use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal, waitid};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A child that is known by a descriptor.
    #[derive(Debug)]
    pub(crate) struct Watched {
        /// Shared with the thread that waits for its end when this is dropped.
        descriptor: Arc<OwnedFd>,
        exit: Option<ExitStatus>,
        /// It was waited for, by us or, where the program around us does that, by somebody else.
        is_over: bool,
    }

    impl Watched {
        pub(crate) fn new(descriptor: OwnedFd) -> Self {
            Self {
                descriptor: Arc::new(descriptor),
                exit: None,
                is_over: false,
            }
        }

        pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
            if let Some(exit) = self.try_wait()? {
                return Ok(exit);
            }
            // Registered only while somebody waits: nobody does before the end is near.
            let end = register(Arc::clone(&self.descriptor))?;
            loop {
                let mut ready = end.readable().await?;
                if let Some(exit) = self.try_wait()? {
                    return Ok(exit);
                }
                // A debugger looks at it first, and then the kernel calls again.
                ready.clear_ready();
            }
        }

        pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
            if self.exit.is_none() {
                let ended = look(self.descriptor.as_fd(), WaitIdOptions::NOHANG);
                self.is_over = !matches!(ended, Ok(None));
                self.exit = ended?;
            }
            Ok(self.exit)
        }

        /// Comes back when it has ended. Blocks: for one that is about to.
        pub(crate) fn wait_here(&mut self) -> io::Result<()> {
            self.is_over = true;
            look(self.descriptor.as_fd(), WaitIdOptions::empty()).map(drop)
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            if self.is_over {
                return;
            }
            let _ = pidfd_send_signal(&*self.descriptor, Signal::KILL);
            if !matches!(self.try_wait(), Ok(None)) {
                return;
            }
            // It takes a moment to die, or for ever if the kernel is stuck: nobody else waits for that.
            let descriptor = Arc::clone(&self.descriptor);
            let thread = std::thread::Builder::new().name("switchboard-reap".to_owned());
            let reap = move || drop(look(descriptor.as_fd(), WaitIdOptions::empty()));
            if thread.spawn(reap).is_err() {
                let _ = self.wait_here();
            }
        }
    }

    #[expect(unsafe_code, reason = "the runtime keeps only the number")]
    fn register(descriptor: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
        // SAFETY: what is behind the `Arc` is never exchanged, and is closed with its last clone. The
        // registration holds one.
        Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE)? })
    }

    fn look(child: BorrowedFd<'_>, options: WaitIdOptions) -> io::Result<Option<ExitStatus>> {
        let options = options | WaitIdOptions::EXITED;
        let status = retry_on_intr(|| waitid(WaitId::PidFd(child), options))?;
        Ok(status.as_ref().map(exit_status))
    }

    /// As the system calls that are older than descriptors of processes would say it.
    fn exit_status(status: &WaitIdStatus) -> ExitStatus {
        let code = status.exit_status().map(|code| (code & 0xff) << 8);
        ExitStatus::from_raw(code.or(status.terminating_signal()).unwrap_or_default())
    }
}
