//! The one task that sees a connection to its end.
//!
//! It does nothing while all goes well. Invariant: when a connection is over, the CLI is gone with all
//! that it started, and everybody who waits for something knows why.

use std::sync::Arc;
use std::time::Duration;

use switchboard::process::{Exit, RunningProgram};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Shared;
use super::outcome::{Lost, Outcome};
use super::reading::ReadEnd;
use super::turns::Turns;
use super::writing::WriteEnd;
use crate::error::Loss;

/// How long the CLI may take to leave when its input has ended, and once more when it is asked to.
pub(super) const TO_LEAVE: Duration = Duration::from_secs(5);
/// How long the last bytes may take: of what it wrote to stderr, and of what was written to it.
const LAST_BYTES: Duration = Duration::from_secs(1);

pub(super) struct Ending {
    pub(super) shared: Arc<Shared>,
    pub(super) reading: JoinHandle<ReadEnd>,
    pub(super) writing: JoinHandle<WriteEnd>,
}

/// How the first of the two streams ended.
enum Wake {
    Stop,
    Read(ReadEnd),
    Written(WriteEnd),
}

impl Ending {
    pub(super) async fn run(mut self) {
        let (read, written) = match self.wake().await {
            // Whoever stops it has killed the CLI.
            Wake::Stop => {
                self.writing.abort();
                self.reading.abort();
                return self.publish(Outcome::Closed);
            }
            Wake::Read(end) => (Some(end), None),
            Wake::Written(WriteEnd::Stalled) => (None, Some(WriteEnd::Stalled)),
            Wake::Written(end) => (self.last_messages().await, Some(end)),
        };
        let was_closing = self.shared.closing.is_cancelled();
        self.close_input().await;
        let had_time = read.is_none();
        let child = self.shared.take_child();
        let shared = Arc::clone(&self.shared);
        let leave = see_off(child, had_time);
        let Some(exit) = shared.stop.run_until_cancelled(leave).await else {
            return self.publish(Outcome::Closed);
        };
        if let Some(words) = &self.shared.stderr {
            let _ = timeout(LAST_BYTES, words.drained()).await;
        }
        let loss = loss(read, written, exit, was_closing, &self.shared);
        let outcome = loss.map_or(Outcome::Closed, |loss| {
            let words = self.shared.last_words();
            Outcome::Lost(Arc::new(Lost { loss, words }))
        });
        self.publish(outcome);
    }

    async fn wake(&mut self) -> Wake {
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => Wake::Stop,
            end = &mut self.reading => Wake::Read(unless_panicked(end)),
            end = &mut self.writing => Wake::Written(end.unwrap_or(WriteEnd::Broken)),
        }
    }

    /// What the CLI says after its input has ended.
    async fn last_messages(&mut self) -> Option<ReadEnd> {
        let end = timeout(TO_LEAVE, &mut self.reading);
        let end = self.shared.stop.run_until_cancelled(end).await;
        Some(unless_panicked(end?.ok()?))
    }

    async fn close_input(&mut self) {
        self.shared.closing.cancel();
        if !self.writing.is_finished() && timeout(LAST_BYTES, &mut self.writing).await.is_err() {
            self.writing.abort();
        }
        self.reading.abort();
    }

    fn publish(&self, outcome: Outcome) {
        self.shared.pending.end(outcome.clone());
        self.shared.inbox.end(outcome);
        self.shared.over.cancel();
        // What was being answered is of no use any more.
        self.shared.stop.cancel();
    }
}

/// How the process ended, where there is one.
async fn see_off(child: Option<RunningProgram>, had_time: bool) -> Option<Exit> {
    let after_eof = if had_time { Duration::ZERO } else { TO_LEAVE };
    Some(child?.shut_down(after_eof, TO_LEAVE).await)
}

/// What went wrong, if anything did.
fn loss(
    read: Option<ReadEnd>,
    written: Option<WriteEnd>,
    exit: Option<Exit>,
    was_closing: bool,
    shared: &Shared,
) -> Option<Loss> {
    let read = match (read, written) {
        (Some(read), _) => read,
        // It would not leave, and was made to.
        (None, Some(WriteEnd::Closed) | None) => return None,
        (None, Some(WriteEnd::Stalled)) if was_closing => return None,
        (None, Some(WriteEnd::Stalled)) => return Some(Loss::Deaf(shared.settings.patience)),
        (None, Some(WriteEnd::Broken)) => return Some(Loss::HungUp),
    };
    if read.loss.is_some() {
        return read.loss;
    }
    if shared.is_left() {
        return None;
    }
    // After a turn that failed the CLI exits with an error, and that was told already; not so if it
    // failed before it had answered what it was asked.
    let is_told = read.turns.has_failed() && !shared.pending.is_waiting();
    let is_expected = exit.is_none_or(Exit::is_success) || is_told;
    let ends_with_turn = shared.settings.ends_with_turn;
    let was_wanted = was_closing || (ends_with_turn && read.turns.has_result());
    (!(was_wanted && is_expected)).then(|| Loss::Exited(exit.unwrap_or_default()))
}

fn unless_panicked(end: Result<ReadEnd, tokio::task::JoinError>) -> ReadEnd {
    end.unwrap_or_else(|error| ReadEnd {
        loss: Some(Loss::Unreadable(error.to_string())),
        turns: Turns::default(),
    })
}
