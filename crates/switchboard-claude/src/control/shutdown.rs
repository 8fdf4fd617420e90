//! The task that ends a connection.
//!
//! It waits until the reader or the writer stops. Then it closes the input of the CLI, ends the
//! process and publishes why the connection ended. Invariant: when a connection has ended, the CLI
//! and all processes that it started are gone, and every pending request has received the reason.

use std::sync::Arc;
use std::time::Duration;

use switchboard::process::{ExitOutcome, RunningProgram};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Shared;
use super::close_reason::{CloseReason, LostConnection};
use super::reader::ReaderExit;
use super::turn_end::TurnEndTracker;
use super::writer::WriterExit;
use crate::error::LossReason;

/// How long the CLI may take to exit after its input was closed. A CLI that has not exited by then
/// gets SIGTERM, and is killed after the same time again. The writer task has the same time to
/// write its queue after [`Shared::closing`] was cancelled.
pub(super) const EXIT_GRACE: Duration = Duration::from_secs(5);
/// How long to wait for the end of stderr, and separately for the writer to write its queue.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Shutdown {
    pub(super) shared: Arc<Shared>,
    pub(super) reader: JoinHandle<ReaderExit>,
    pub(super) writer: JoinHandle<WriterExit>,
}

/// What made the shutdown task start the shutdown.
enum Wake {
    Stop,
    ReaderExited(ReaderExit),
    WriterExited(WriterExit),
}

impl Shutdown {
    pub(super) async fn run(mut self) {
        let (reader, writer) = match self.wake().await {
            // `Control::drop` cancels `stop`, and has already killed the CLI.
            Wake::Stop => {
                self.writer.abort();
                self.reader.abort();
                return self.publish(CloseReason::Closed);
            }
            Wake::ReaderExited(exit) => (Some(exit), None),
            Wake::WriterExited(WriterExit::Stalled) => (None, Some(WriterExit::Stalled)),
            Wake::WriterExited(exit) => (self.read_last_messages().await, Some(exit)),
        };
        let was_closing = self.shared.closing.is_cancelled();
        self.close_input().await;
        let had_grace = reader.is_none();
        let child = self.shared.take_child();
        let shared = Arc::clone(&self.shared);
        let exit = shut_down_child(child, had_grace);
        let Some(exit) = shared.stop.run_until_cancelled(exit).await else {
            return self.publish(CloseReason::Closed);
        };
        if let Some(stderr) = &self.shared.stderr {
            let _ = timeout(DRAIN_TIMEOUT, stderr.drained()).await;
        }
        let loss = loss_reason(reader, writer, exit, was_closing, &self.shared);
        let reason = loss.map_or(CloseReason::Closed, |reason| {
            let output = self.shared.output_tail();
            CloseReason::Lost(Arc::new(LostConnection { reason, output }))
        });
        self.publish(reason);
    }

    async fn wake(&mut self) -> Wake {
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => Wake::Stop,
            exit = &mut self.reader => Wake::ReaderExited(reader_exit(exit)),
            exit = &mut self.writer => Wake::WriterExited(exit.unwrap_or(WriterExit::BrokenPipe)),
        }
    }

    /// Waits while the reader task reads the last messages of the CLI, whose input is closed.
    /// Returns `None` if the CLI does not close its output within [`EXIT_GRACE`], or if the
    /// [`Control`](super::Control) is dropped.
    async fn read_last_messages(&mut self) -> Option<ReaderExit> {
        let exit = timeout(EXIT_GRACE, &mut self.reader);
        let exit = self.shared.stop.run_until_cancelled(exit).await;
        Some(reader_exit(exit?.ok()?))
    }

    async fn close_input(&mut self) {
        self.shared.closing.cancel();
        if !self.writer.is_finished() && timeout(DRAIN_TIMEOUT, &mut self.writer).await.is_err() {
            self.writer.abort();
        }
        self.reader.abort();
    }

    fn publish(&self, reason: CloseReason) {
        self.shared.pending.end(reason.clone());
        self.shared.messages.end(reason);
        self.shared.ended.cancel();
        // Stop the handlers of requests of the CLI: their responses can no longer be sent.
        self.shared.stop.cancel();
    }
}

/// Ends the process. `had_grace` is set if the CLI has already had [`EXIT_GRACE`] to close its
/// output, or does not read its input. The CLI then gets SIGTERM at once.
async fn shut_down_child(child: Option<RunningProgram>, had_grace: bool) -> Option<ExitOutcome> {
    let after_eof = if had_grace {
        Duration::ZERO
    } else {
        EXIT_GRACE
    };
    Some(child?.shut_down(after_eof, EXIT_GRACE).await)
}

/// Decides whether the connection was lost. Returns `None` if it was closed normally.
fn loss_reason(
    reader: Option<ReaderExit>,
    writer: Option<WriterExit>,
    exit: Option<ExitOutcome>,
    was_closing: bool,
    shared: &Shared,
) -> Option<LossReason> {
    let reader = match (reader, writer) {
        (Some(reader), _) => reader,
        // This program closed the input of the CLI, and the CLI did not exit within [`EXIT_GRACE`].
        // That is no loss.
        (None, Some(WriterExit::Closed) | None) => return None,
        (None, Some(WriterExit::Stalled)) if was_closing => return None,
        (None, Some(WriterExit::Stalled)) => {
            return Some(LossReason::NotReading(shared.settings.write_timeout));
        }
        (None, Some(WriterExit::BrokenPipe)) => return Some(LossReason::ClosedInput),
    };
    if reader.loss.is_some() {
        return reader.loss;
    }
    if shared.is_closed_by_us() {
        return None;
    }
    // After a failed turn, the CLI exits with an error code. The result message has already
    // reported the failure. So the exit code is expected, unless requests are still pending.
    let is_reported = reader.turn.has_failed() && shared.pending.is_empty();
    let is_expected = exit.is_none_or(ExitOutcome::is_success) || is_reported;
    let turn_done = shared.settings.close_after_turn && reader.turn.has_result();
    let was_requested = was_closing || turn_done;
    (!(was_requested && is_expected)).then(|| LossReason::Exited(exit.unwrap_or_default()))
}

/// Returns what the reader task returned. If it panicked, returns a loss with the panic as reason.
fn reader_exit(exit: Result<ReaderExit, tokio::task::JoinError>) -> ReaderExit {
    exit.unwrap_or_else(|error| ReaderExit {
        loss: Some(LossReason::ReadFailed(error.to_string())),
        turn: TurnEndTracker::default(),
    })
}
