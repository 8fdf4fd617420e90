//! Waits for SIGINT, SIGTERM and SIGHUP.
//!
//! The first signal cancels the work of a command, and the host shuts its servers down; a second
//! signal ends that shutdown early. Invariant: after [`Signals::listen`] none of these signals
//! kills the process directly.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that end a command.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// SIGHUP: the terminal was closed.
    hang_up: Signal,
}

impl Signals {
    /// Installs the handlers. From then on these signals no longer kill the process.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }

    /// Runs `work`. When a signal arrives, drops `work` and returns [`Failure::interrupted`].
    pub(crate) async fn until_signal<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.next() => Err(Failure::interrupted()),
            outcome = work => outcome,
        }
    }
}
