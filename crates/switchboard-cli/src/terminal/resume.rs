//! Restores terminal modes when the process continues after a stop.
//!
//! A shell sets its own modes when it stops a program, for example with echo on, and does not
//! restore those of the program when the program continues in the foreground.

use std::future::{Future, pending};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Runs `work`, and calls `apply_modes` each time the process receives SIGCONT.
pub(crate) async fn with_modes_kept<T>(apply_modes: impl Fn(), work: impl Future<Output = T>) -> T {
    let resumed = async {
        let Ok(mut resumed) = signal(SignalKind::from_raw(Signal::CONT.as_raw())) else {
            // Without the handler, the modes are lost after a stop.
            return pending().await;
        };
        while resumed.recv().await.is_some() {
            apply_modes();
        }
        pending().await
    };
    tokio::select! {
        biased;
        outcome = work => outcome,
        outcome = resumed => outcome,
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, kill_process};
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn modes_are_applied_when_the_process_continues() {
        let applied = Notify::new();
        let work = async {
            // The handler is installed when `with_modes_kept` is polled for the first time.
            tokio::task::yield_now().await;
            kill_process(getpid(), Signal::CONT).unwrap();
            applied.notified().await;
        };
        with_modes_kept(|| applied.notify_one(), work).await;
    }
}
