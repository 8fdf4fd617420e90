//! The last words of a child.
//!
//! Its stderr is always read, so that it never blocks on it for good (a flood is read at a pace), and
//! only the end of it is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::content::sanitize;
use crate::session::pace::{Floods, Pace};
use crate::sync::lock;
use crate::telemetry::Redactor;

/// How many lines an error message shows.
const SHOWN_LINES: usize = 8;
/// How much is read at a time.
const READ_BYTES: usize = 8 * 1024;
/// How much is read at once, and each second for as long as the child likes, in bytes.
const AT_ONCE: u32 = 4 * 1024 * 1024;
const PER_SECOND: u32 = 4 * 1024 * 1024;

/// The end of what a child wrote to stderr; shared with the task that reads it.
#[derive(Clone, Debug)]
pub(crate) struct StderrTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    limit: usize,
    redactor: Redactor,
    /// Cancelled when the child has closed its stderr.
    drained: CancellationToken,
}

impl StderrTail {
    /// Starts to read. The task ends with the stream, or with `stop`.
    pub(crate) fn spawn(
        stream: impl AsyncRead + Send + Unpin + 'static,
        limit: usize,
        redactor: Redactor,
        floods: Floods,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let tail = Self {
            kept: Arc::default(),
            limit,
            redactor,
            drained: CancellationToken::new(),
        };
        let task = tail.clone();
        tasks.spawn(async move {
            stop.run_until_cancelled(task.drain(stream, floods)).await;
            task.drained.cancel();
        });
        tail
    }

    async fn drain(&self, mut stream: impl AsyncRead + Unpin, floods: Floods) {
        let mut buffer = vec![0; READ_BYTES];
        let mut pace = Pace::new(PER_SECOND, AT_ONCE);
        loop {
            let piece = buffer.get_mut(..pace.piece(READ_BYTES)).unwrap_or_default();
            let Ok(count @ 1..) = stream.read(piece).await else {
                return;
            };
            self.keep(piece.get(..count).unwrap_or_default());
            if let Some(pause) = floods.take(&mut pace, count) {
                tokio::time::sleep(pause).await;
            }
        }
    }

    fn keep(&self, read: &[u8]) {
        let mut kept = lock(&self.kept);
        kept.extend(read);
        let surplus = kept.len().saturating_sub(self.limit);
        kept.drain(..surplus);
    }

    /// Comes back when there is nothing more to read.
    pub(crate) async fn drained(&self) {
        self.drained.cancelled().await;
    }

    /// The last lines, safe to print and without the entry's secrets; empty when the child said nothing.
    pub(crate) fn last_lines(&self) -> String {
        let bytes: Vec<u8> = lock(&self.kept).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = self.redactor.redact(&sanitize(&text));
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let (before, last) = lines.split_at(lines.len().saturating_sub(SHOWN_LINES));
        // Where a trace of calls follows, what went wrong stands before it.
        let names_it = before.iter().rfind(|line| names_an_error(line));
        let names_it = names_it.filter(|_| !last.iter().any(|line| names_an_error(line)));
        let shown: Vec<_> = names_it.into_iter().chain(last).copied().collect();
        shown.join("\n")
    }
}

/// Whether a line says what went wrong: `Error: …`, `TypeError: …`, `error: …`, `fatal: …`.
fn names_an_error(line: &str) -> bool {
    let word = line
        .trim_start()
        .split([':', ' '])
        .next()
        .unwrap_or_default();
    let is_named = word.ends_with("Error") || word.ends_with("Exception");
    is_named || matches!(word, "error" | "fatal" | "ERROR" | "FATAL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_went_wrong_is_shown_even_if_a_long_trace_follows() {
        let trace = "    at some frame\n".repeat(20);
        let said = format!("starting\nError: Cannot find module 'x'\n{trace}");
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let stream = std::io::Cursor::new(said.into_bytes());
        let (redactor, floods) = (Redactor::default(), Floods::new());
        let tail = StderrTail::spawn(stream, 64 * 1024, redactor, floods, &tasks, stop);
        tail.drained().await;
        let shown = tail.last_lines();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.first(), Some(&"Error: Cannot find module 'x'"));
        assert_eq!(lines.len(), SHOWN_LINES + 1);
    }
}
