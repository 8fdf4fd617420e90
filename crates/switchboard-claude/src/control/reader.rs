//! The task that reads the output of the CLI.
//!
//! Invariant: the task waits only for output of the CLI. It spawns a task for each request of the
//! CLI, puts messages into the queue for the user, and passes responses to pending requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio::time::Instant;

use super::Shared;
use super::frame::{self, Frame};
use super::line_reader::{LineError, LineReader};
use super::stray_output::excerpt;
use super::turn_end::TurnEndTracker;
use crate::error::LossReason;

/// If background tasks still run after the result message and the CLI sends no message for this
/// long, this program closes the input of the CLI.
const BACKGROUND_TASK_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// What the reader knows when it stops reading.
#[derive(Debug)]
pub(super) struct ReaderExit {
    /// Why the reader ended the connection. `None` if the CLI closed its output.
    pub(super) loss: Option<LossReason>,
    pub(super) turn: TurnEndTracker,
}

pub(super) struct Reader<R> {
    lines: LineReader<R>,
    shared: Arc<Shared>,
    turn: TurnEndTracker,
    /// When to close the input of the CLI even if background tasks still run. `None` unless a
    /// result message has arrived and background tasks run. Each later message renews the deadline.
    linger_deadline: Option<Instant>,
}

enum Wake {
    Line(Vec<u8>),
    LingerDeadline,
    NoLine(LineError),
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(stream: R, shared: Arc<Shared>) -> Self {
        Self {
            lines: LineReader::new(stream, shared.settings.max_line_bytes),
            shared,
            turn: TurnEndTracker::default(),
            linger_deadline: None,
        }
    }

    pub(super) async fn run(mut self) -> ReaderExit {
        let loss = loop {
            match self.wake().await {
                Wake::Line(line) => {
                    if let Err(loss) = self.handle_line(line) {
                        break Some(loss);
                    }
                }
                Wake::LingerDeadline => {
                    self.linger_deadline = None;
                    self.shared.closing.cancel();
                }
                Wake::NoLine(LineError::EndOfStream) => {
                    let partial = self.lines.take_partial();
                    if !partial.trim_ascii().is_empty() {
                        self.shared
                            .stray_output
                            .push(&partial, &self.shared.secrets);
                    }
                    break None;
                }
                Wake::NoLine(LineError::TooLong) => {
                    let limit = self.shared.settings.max_line_bytes;
                    break Some(LossReason::LineTooLong(limit));
                }
                Wake::NoLine(LineError::Io(error)) => {
                    break Some(LossReason::ReadFailed(error.to_string()));
                }
            }
        };
        ReaderExit {
            loss,
            turn: self.turn,
        }
    }

    async fn wake(&mut self) -> Wake {
        let deadline = self.linger_deadline;
        let line = self.lines.next();
        let line = match deadline {
            None => line.await,
            Some(deadline) => match tokio::time::timeout_at(deadline, line).await {
                Ok(line) => line,
                Err(_) => return Wake::LingerDeadline,
            },
        };
        line.map_or_else(Wake::NoLine, Wake::Line)
    }

    fn handle_line(&mut self, line: Vec<u8>) -> Result<(), LossReason> {
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() {
            return Ok(());
        }
        if trimmed.first() != Some(&b'{') {
            let may_be_cli = self.shared.stray_output.push(trimmed, &self.shared.secrets);
            return if may_be_cli {
                Ok(())
            } else {
                Err(LossReason::NotTheCli)
            };
        }
        let text = String::from_utf8(line)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let Ok(frame) = Frame::parse(&text) else {
            let beginning = excerpt(text.as_bytes(), &self.shared.secrets);
            return Err(LossReason::InvalidJson(beginning));
        };
        self.shared.stray_output.mark_first_message();
        match frame {
            Frame::Request { id, request } => self.spawn_handler(id, request),
            Frame::Cancel { id } => self.shared.incoming.cancel(&id),
            Frame::Response { id, response } => self.shared.pending.complete(&id, response),
            Frame::Ignored => {}
            Frame::Message { signal, host_only } => {
                self.turn.record(signal);
                if !host_only {
                    self.queue_message(text)?;
                }
                self.check_turn_end();
            }
        }
        Ok(())
    }

    fn queue_message(&self, message: String) -> Result<(), LossReason> {
        let limit = self.shared.settings.max_queued_bytes;
        let queued = self.shared.messages.push(message);
        queued.map_err(|_| LossReason::QueueFull(limit))
    }

    fn check_turn_end(&mut self) {
        if !self.shared.settings.close_after_turn {
            return;
        }
        if self.turn.is_over() {
            self.shared.closing.cancel();
        }
        let waits = self.turn.has_background_tasks();
        self.linger_deadline = waits.then(|| Instant::now() + BACKGROUND_TASK_TIMEOUT);
    }

    /// Passes a request of the CLI to the router, and spawns a task that waits for the answer and
    /// sends it to the CLI.
    fn spawn_handler(&self, id: String, request: Option<&RawValue>) {
        let begin = || self.shared.incoming.begin(&id, &self.shared.stop);
        let Some(incoming) = (!id.is_empty()).then(begin).flatten() else {
            tracing::warn!(id, "control request with a missing or duplicate id");
            return;
        };
        let request = request.map_or("null", RawValue::get);
        let routed = self.shared.router.route(request);
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn(async move {
            let work = shared.router.answer(routed);
            let answer = incoming.stop.run_until_cancelled(work).await;
            let is_open = shared.incoming.finish(&id, &incoming);
            if let (Some(answer), true) = (answer, is_open) {
                let line = match answer {
                    Ok(payload) => frame::success(&id, &payload),
                    Err(error) => frame::error(&id, &error),
                };
                // Sending fails only if the writer closes the input of the CLI. The response can
                // then no longer be delivered.
                let _ = shared.writer.send(line).await;
            }
        });
    }
}
