//! Ctrl-C and its relatives.
//!
//! The first one ends the work in good order, the second one ends it at once.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that mean *stop*.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal was closed.
    hang_up: Signal,
}

impl Signals {
    /// From here on such a signal no longer ends the process by itself.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Comes back when one arrives.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }

    /// Does the work until a signal comes; the work is dropped then.
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
