//! The one task that reads what the CLI writes.
//!
//! Invariant: it waits for nothing but the CLI. What is asked is answered by a task of its own,
//! messages are kept for the user, answers wake whoever waits for them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio::time::Instant;

use super::Shared;
use super::frame::{self, Frame};
use super::lines::{Lines, NoLine};
use super::noise::excerpt;
use super::turns::Turns;
use crate::error::Loss;

/// How long is waited for tasks in the background, counted from the last sign of life after a result.
const LINGER: Duration = Duration::from_secs(10 * 60);

/// Why nothing more is read.
#[derive(Debug)]
pub(super) struct ReadEnd {
    /// `None`: the CLI closed its output.
    pub(super) loss: Option<Loss>,
    pub(super) turns: Turns,
}

pub(super) struct Reader<R> {
    lines: Lines<R>,
    shared: Arc<Shared>,
    turns: Turns,
    /// When the CLI has been waited for long enough, after a result.
    enough: Option<Instant>,
}

enum Wake {
    Line(Vec<u8>),
    Enough,
    No(NoLine),
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(stream: R, shared: Arc<Shared>) -> Self {
        Self {
            lines: Lines::new(stream, shared.settings.longest_line),
            shared,
            turns: Turns::default(),
            enough: None,
        }
    }

    pub(super) async fn run(mut self) -> ReadEnd {
        let loss = loop {
            match self.wake().await {
                Wake::Line(line) => {
                    if let Err(loss) = self.take(line) {
                        break Some(loss);
                    }
                }
                Wake::Enough => {
                    self.enough = None;
                    self.shared.closing.cancel();
                }
                Wake::No(NoLine::End) => {
                    let rest = self.lines.rest();
                    if !rest.trim_ascii().is_empty() {
                        self.shared.noise.keep(&rest, &self.shared.secrets);
                    }
                    break None;
                }
                Wake::No(NoLine::TooLong) => {
                    break Some(Loss::LineTooLong(self.shared.settings.longest_line));
                }
                Wake::No(NoLine::Failed(error)) => break Some(Loss::Unreadable(error.to_string())),
            }
        };
        ReadEnd {
            loss,
            turns: self.turns,
        }
    }

    async fn wake(&mut self) -> Wake {
        let enough = self.enough;
        let line = self.lines.next();
        let line = match enough {
            None => line.await,
            Some(enough) => match tokio::time::timeout_at(enough, line).await {
                Ok(line) => line,
                Err(_) => return Wake::Enough,
            },
        };
        line.map_or_else(Wake::No, Wake::Line)
    }

    fn take(&mut self, line: Vec<u8>) -> Result<(), Loss> {
        let trimmed = line.trim_ascii();
        if trimmed.first() != Some(&b'{') {
            let keep = || self.shared.noise.keep(trimmed, &self.shared.secrets);
            let is_hopeful = trimmed.is_empty() || keep();
            return if is_hopeful {
                Ok(())
            } else {
                Err(Loss::NotTheCli)
            };
        }
        let text = String::from_utf8(line)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let Ok(frame) = Frame::read(&text) else {
            let beginning = excerpt(text.as_bytes(), &self.shared.secrets);
            return Err(Loss::Garbled(beginning));
        };
        self.shared.noise.is_over();
        match frame {
            Frame::Request { id, request } => self.serve(id, request),
            Frame::Cancel { id } => self.shared.serving.cancel(&id),
            Frame::Answer { id, answer } => self.shared.pending.answered(&id, answer),
            Frame::Nothing => {}
            Frame::Message { sign, is_for_us } => {
                self.turns.see(sign);
                if !is_for_us {
                    self.keep(text)?;
                }
                self.look_for_the_end();
            }
        }
        Ok(())
    }

    fn keep(&self, message: String) -> Result<(), Loss> {
        let limit = self.shared.settings.most_waiting;
        let kept = self.shared.inbox.push(message);
        kept.map_err(|_| Loss::NobodyReads(limit))
    }

    fn look_for_the_end(&mut self) {
        if !self.shared.settings.ends_with_turn {
            return;
        }
        if self.turns.is_over() {
            self.shared.closing.cancel();
        }
        let is_lingering = self.turns.is_lingering();
        self.enough = is_lingering.then(|| Instant::now() + LINGER);
    }

    /// Answers what the CLI asks, in a task of its own.
    fn serve(&self, id: String, request: Option<&RawValue>) {
        let begin = || self.shared.serving.begin(&id, &self.shared.stop);
        let Some(served) = (!id.is_empty()).then(begin).flatten() else {
            tracing::warn!(id, "a request of the CLI's that cannot be answered");
            return;
        };
        let request = request.map_or("null", RawValue::get);
        let taken = self.shared.desk.take(request);
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn(async move {
            let work = shared.desk.answer(taken);
            let answer = served.stop.run_until_cancelled(work).await;
            let is_wanted = shared.serving.is_wanted(&id, &served);
            if let (Some(answer), true) = (answer, is_wanted) {
                let line = match answer {
                    Ok(payload) => frame::success(&id, &payload),
                    Err(error) => frame::refusal(&id, &error),
                };
                // If nobody takes it, the connection is over.
                let _ = shared.outbox.send(line).await;
            }
        });
    }
}
