//! Reads the stderr of a child process and keeps its last bytes for error messages.
//!
//! The stream is read even if nothing needs the bytes; otherwise a full pipe would block the child.
//! The rate of reading is limited, so that a child that floods stderr does not occupy the CPU.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::rate_limit::RateLimiter;
use switchboard_wire::redact::Redactor;
use switchboard_wire::sync::lock;
use switchboard_wire::text::sanitize;

/// Maximum number of trailing lines in an error message. If none of them looks like an error, the
/// last earlier line that does is shown, too.
const MAX_LINES: usize = 8;
/// Size of one read, in bytes.
const READ_BYTES: usize = 8 * 1024;
/// Bytes that are read at full speed. Beyond them, `READ_BYTES_PER_SECOND` limits the rate.
const READ_BURST_BYTES: u32 = 4 * 1024 * 1024;
const READ_BYTES_PER_SECOND: u32 = 4 * 1024 * 1024;

/// The bytes that are kept, and how many the child has written in total.
#[derive(Debug, Default)]
struct KeptBytes {
    bytes: VecDeque<u8>,
    written: u64,
}

/// The part of a child's stderr that was written after a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StderrOutput {
    /// Complete lines, sanitized and with secrets masked.
    pub text: String,
    /// The position after `text`, in bytes since the start of the child.
    pub end: u64,
    /// The number of bytes between the position and `text` that are no longer kept.
    pub skipped: u64,
}

/// The last bytes of a child's stderr. Clones share the bytes with the task that reads the stream.
#[derive(Clone, Debug)]
pub struct StderrTail {
    tail: Arc<Mutex<KeptBytes>>,
    limit: usize,
    redactor: Redactor,
    /// Cancelled when the reading task has stopped.
    drained: CancellationToken,
}

impl StderrTail {
    /// Spawns the task that reads the stream until it ends or `stop` is cancelled.
    pub(crate) fn spawn(
        stream: impl AsyncRead + Send + Unpin + 'static,
        limit: usize,
        redactor: Redactor,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let tail = Self {
            tail: Arc::default(),
            limit,
            redactor,
            drained: CancellationToken::new(),
        };
        let task = tail.clone();
        tasks.spawn(async move {
            stop.run_until_cancelled(task.drain(stream)).await;
            task.drained.cancel();
        });
        tail
    }

    async fn drain(&self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; READ_BYTES];
        let mut rate_limit = RateLimiter::new(READ_BYTES_PER_SECOND, READ_BURST_BYTES);
        loop {
            let limit = rate_limit.read_limit(READ_BYTES);
            let chunk = buffer.get_mut(..limit).unwrap_or_default();
            let Ok(count @ 1..) = stream.read(chunk).await else {
                return;
            };
            self.append(chunk.get(..count).unwrap_or_default());
            if let Some(pause) = rate_limit.consume(count) {
                tokio::time::sleep(pause).await;
            }
        }
    }

    fn append(&self, bytes: &[u8]) {
        let mut tail = lock(&self.tail);
        tail.written += bytes.len() as u64;
        tail.bytes.extend(bytes);
        let surplus = tail.bytes.len().saturating_sub(self.limit);
        tail.bytes.drain(..surplus);
    }

    /// The complete lines that the child wrote after its first `position` bytes. When the stream
    /// has ended, the last line counts as complete.
    pub fn output_since(&self, position: u64) -> StderrOutput {
        let is_drained = self.drained.is_cancelled();
        let tail = lock(&self.tail);
        let kept_from = tail.written - tail.bytes.len() as u64;
        let start = position.max(kept_from).min(tail.written);
        let offset = usize::try_from(start - kept_from).unwrap_or(usize::MAX);
        let mut bytes: Vec<u8> = tail.bytes.iter().skip(offset).copied().collect();
        drop(tail);
        if !is_drained {
            let end = bytes.iter().rposition(|byte| *byte == b'\n');
            bytes.truncate(end.map_or(0, |end| end + 1));
        }
        let text = String::from_utf8_lossy(&bytes);
        StderrOutput {
            text: self.redactor.redact(&sanitize(&text)),
            end: start + bytes.len() as u64,
            skipped: start.saturating_sub(position),
        }
    }

    /// Waits until the stream has ended or the reading task was stopped.
    pub(crate) async fn drained(&self) {
        self.drained.cancelled().await;
    }

    /// The last non-blank lines of stderr, sanitized and with secrets masked. Empty if the child
    /// wrote none.
    pub fn last_lines(&self) -> String {
        let bytes: Vec<u8> = lock(&self.tail).bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = self.redactor.redact(&sanitize(&text));
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let (before, last) = lines.split_at(lines.len().saturating_sub(MAX_LINES));
        // If none of the last lines names an error, they may be the end of a long stack trace. Then
        // also show the line that names the error.
        let error_line = before.iter().rfind(|line| looks_like_error(line));
        let error_line = error_line.filter(|_| !last.iter().any(|line| looks_like_error(line)));
        let lines: Vec<_> = error_line.into_iter().chain(last).copied().collect();
        lines.join("\n")
    }
}

/// Whether a line begins like an error message: `Error: …`, `TypeError: …`, `error: …`, `fatal: …`.
fn looks_like_error(line: &str) -> bool {
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
    async fn output_is_returned_from_a_position_on() {
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let stream = std::io::Cursor::new(b"one\ntwo\nthree".to_vec());
        let tail = StderrTail::spawn(stream, 9, Redactor::default(), &tasks, stop);
        tail.drained().await;
        let all = tail.output_since(0);
        assert_eq!(
            (all.text.as_str(), all.end, all.skipped),
            ("two\nthree", 13, 4)
        );
        assert_eq!(tail.output_since(8).text, "three");
        assert_eq!(tail.output_since(all.end).text, "");
    }

    #[tokio::test]
    async fn error_line_before_a_long_trace_is_shown() {
        let trace = "    at some frame\n".repeat(20);
        let output = format!("starting\nError: Cannot find module 'x'\n{trace}");
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let stream = std::io::Cursor::new(output.into_bytes());
        let redactor = Redactor::default();
        let tail = StderrTail::spawn(stream, 64 * 1024, redactor, &tasks, stop);
        tail.drained().await;
        let text = tail.last_lines();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.first(), Some(&"Error: Cannot find module 'x'"));
        assert_eq!(lines.len(), MAX_LINES + 1);
    }
}
