//! The handle of a child that this process started: waits for it and reaps it.
//!
//! This module ends the child itself, not its process group. Invariant: a handle that is dropped
//! kills and reaps its child, so that no zombie remains. A pidfd handle does so even if the runtime
//! is gone.

use std::io;
use std::process::ExitStatus;

use tokio::process::Child;

/// A child. `vfork` returns it as a pidfd, `fork` as a tokio child.
#[derive(Debug)]
pub(crate) enum ReapedChild {
    #[cfg(target_os = "linux")]
    Pidfd(PidfdChild),
    /// Tokio kills and reaps the child (`kill_on_drop`).
    Tokio(Child),
}

impl ReapedChild {
    /// Waits until the child has exited.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Pidfd(child) => child.wait().await,
            Self::Tokio(child) => child.wait().await,
        }
    }

    /// The exit status, if the child has exited.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Pidfd(child) => child.try_wait(),
            Self::Tokio(child) => child.try_wait(),
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use pidfd::PidfdChild;

#[cfg(target_os = "linux")]
mod pidfd {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::Arc;

    use rustix::io::retry_on_intr;
    use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal, waitid};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A child identified by a pidfd.
    #[derive(Debug)]
    pub(crate) struct PidfdChild {
        /// Shared with the thread that reaps the child after a drop.
        pidfd: Arc<OwnedFd>,
        exit: Option<ExitStatus>,
        /// The child was reaped, by us or by the embedding program.
        is_reaped: bool,
    }

    impl PidfdChild {
        pub(crate) fn new(pidfd: OwnedFd) -> Self {
            Self {
                pidfd: Arc::new(pidfd),
                exit: None,
                is_reaped: false,
            }
        }

        pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
            if let Some(exit) = self.try_wait()? {
                return Ok(exit);
            }
            // The pidfd is registered with the runtime only for the duration of the wait.
            let exit_event = register(Arc::clone(&self.pidfd))?;
            loop {
                let mut ready = exit_event.readable().await?;
                if let Some(exit) = self.try_wait()? {
                    return Ok(exit);
                }
                // A debugger that traces the child sees the exit first; the kernel signals again.
                ready.clear_ready();
            }
        }

        pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
            if self.exit.is_none() {
                let exited = waitid_pidfd(self.pidfd.as_fd(), WaitIdOptions::NOHANG);
                self.is_reaped = !matches!(exited, Ok(None));
                self.exit = exited?;
            }
            Ok(self.exit)
        }

        /// Waits until the child has exited. Blocks; for a child that is about to exit.
        pub(crate) fn wait_blocking(&mut self) -> io::Result<()> {
            self.is_reaped = true;
            waitid_pidfd(self.pidfd.as_fd(), WaitIdOptions::empty()).map(drop)
        }
    }

    impl Drop for PidfdChild {
        fn drop(&mut self) {
            if self.is_reaped {
                return;
            }
            let _ = pidfd_send_signal(&*self.pidfd, Signal::KILL);
            if !matches!(self.try_wait(), Ok(None)) {
                return;
            }
            // The child needs a moment to die, or hangs in the kernel. A separate thread waits for
            // the child: the runtime may be gone, and the caller must not block.
            let pidfd = Arc::clone(&self.pidfd);
            let thread = std::thread::Builder::new().name("switchboard-reap".to_owned());
            let reap = move || drop(waitid_pidfd(pidfd.as_fd(), WaitIdOptions::empty()));
            if thread.spawn(reap).is_err() {
                let _ = self.wait_blocking();
            }
        }
    }

    #[expect(unsafe_code, reason = "the runtime stores only the raw descriptor")]
    fn register(pidfd: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
        // SAFETY: the descriptor behind the `Arc` is never replaced and is closed with the last
        // clone. The registration holds one.
        Ok(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE)? })
    }

    fn waitid_pidfd(
        pidfd: BorrowedFd<'_>,
        options: WaitIdOptions,
    ) -> io::Result<Option<ExitStatus>> {
        let options = options | WaitIdOptions::EXITED;
        let status = retry_on_intr(|| waitid(WaitId::PidFd(pidfd), options))?;
        Ok(status.as_ref().map(exit_status))
    }

    /// Converts to the encoding of `wait`, which `ExitStatus` expects.
    fn exit_status(status: &WaitIdStatus) -> ExitStatus {
        let code = status.exit_status().map(|code| (code & 0xff) << 8);
        ExitStatus::from_raw(code.or(status.terminating_signal()).unwrap_or_default())
    }
}
