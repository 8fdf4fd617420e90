//! Reads the stderr of the CLI, passes each line to a callback and keeps the last lines.
//!
//! A task reads stderr all the time, so that the CLI never blocks when it writes to stderr.
//! Invariant: at most [`KEPT_BYTES`] are kept for [`StderrTail::last_lines`], whose result contains
//! no secret of the environment.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switchboard::content::sanitize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::SecretMask;
use crate::options::StderrCallback;

/// Maximum number of lines that [`StderrTail::last_lines`] returns.
const SHOWN_LINES: usize = 12;
const KEPT_BYTES: usize = 16 * 1024;
const READ_BYTES: usize = 8 * 1024;
/// A line that is longer than this, in bytes, is passed to the callback in pieces. A piece may be
/// longer by up to [`READ_BYTES`].
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The last bytes of stderr. Clones share these bytes with the task that reads stderr.
#[derive(Clone, Debug)]
pub(crate) struct StderrTail {
    buffer: Arc<Mutex<TailBuffer>>,
    secrets: SecretMask,
    drained: CancellationToken,
    /// Contains the task that reads stderr. The task ends when the CLI has closed stderr.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct TailBuffer {
    bytes: VecDeque<u8>,
    /// Whether the beginning of stderr was dropped, so that `bytes` contains only the end.
    is_cut: bool,
}

impl StderrTail {
    pub(crate) fn spawn(
        stream: impl AsyncRead + Send + Unpin + 'static,
        secrets: SecretMask,
        callback: Option<StderrCallback>,
    ) -> Self {
        let stderr = Self {
            buffer: Arc::default(),
            secrets,
            drained: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let reader = stderr.clone();
        stderr.tasks.spawn(async move {
            reader.drain(stream, callback).await;
            reader.drained.cancel();
        });
        stderr
    }

    async fn drain(&self, mut stream: impl AsyncRead + Unpin, callback: Option<StderrCallback>) {
        let mut chunk = vec![0; READ_BYTES];
        let mut forwarder = callback.map(|callback| LineForwarder {
            callback,
            partial: Vec::new(),
        });
        while let Ok(count) = stream.read(&mut chunk).await {
            let read = chunk.get(..count).unwrap_or_default();
            if read.is_empty() {
                break;
            }
            self.keep(read);
            // If the callback panics, `push` returns `None`, and the callback is not called again.
            forwarder = forwarder.and_then(|forwarder| forwarder.push(read));
        }
        if let Some(forwarder) = forwarder {
            forwarder.finish();
        }
    }

    fn keep(&self, read: &[u8]) {
        let mut buffer = self.lock();
        buffer.bytes.extend(read);
        let excess = buffer.bytes.len().saturating_sub(KEPT_BYTES);
        buffer.bytes.drain(..excess);
        buffer.is_cut |= excess > 0;
    }

    /// Waits until stderr has ended and was read completely.
    pub(crate) async fn drained(&self) {
        self.drained.cancelled().await;
    }

    /// Returns the last lines of stderr, with secrets masked and control characters removed. Empty
    /// if the CLI wrote nothing.
    pub(crate) fn last_lines(&self) -> String {
        let (bytes, is_cut) = {
            let buffer = self.lock();
            let bytes: Vec<u8> = buffer.bytes.iter().copied().collect();
            (bytes, buffer.is_cut)
        };
        let text = String::from_utf8_lossy(&bytes);
        let text = if is_cut {
            let text = self.secrets.mask_truncated(&text);
            // The beginning of the first line may be missing. Drop that line unless it is the only
            // one.
            let complete = text.split_once('\n').map(|(_, rest)| rest.to_owned());
            complete.unwrap_or(text)
        } else {
            self.secrets.mask(&text)
        };
        // Mask again: removing control characters may have joined the parts of a secret.
        let text = self.secrets.mask(&sanitize(&text));
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<_> = lines.collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, TailBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits stderr into lines and passes them to the callback. If the callback panics, the methods
/// return `None` instead of the forwarder, so that the callback is not called again.
struct LineForwarder {
    callback: StderrCallback,
    partial: Vec<u8>,
}

impl LineForwarder {
    fn push(mut self, read: &[u8]) -> Option<Self> {
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend(piece);
            if piece.ends_with(b"\n") || self.partial.len() >= MAX_LINE_BYTES {
                self = self.deliver_line()?;
            }
        }
        Some(self)
    }

    fn finish(self) {
        if !self.partial.is_empty() {
            self.deliver_line();
        }
    }

    fn deliver_line(mut self) -> Option<Self> {
        let line = String::from_utf8_lossy(&self.partial);
        let line = line.trim_end_matches(['\n', '\r']);
        let result = catch_unwind(AssertUnwindSafe(|| (self.callback)(line)));
        result.ok()?;
        self.partial.clear();
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(secret: &str) -> SecretMask {
        SecretMask::from_env(&[("A_KEY".to_owned(), secret.to_owned())].into())
    }

    #[tokio::test]
    async fn tail_never_starts_inside_secret() {
        const SECRET: &str = "sk-12345678";
        for cut in 1..SECRET.len() {
            for rest in ["", "\nlast line"] {
                let padding = "x".repeat(KEPT_BYTES - (SECRET.len() - cut) - rest.len());
                let output = format!("before {SECRET}{padding}{rest}");
                let output = std::io::Cursor::new(output);
                let stderr = StderrTail::spawn(output, secrets(SECRET), None);
                stderr.drained().await;
                let shown = stderr.last_lines();
                assert!(!shown.contains('8'), "{}", &shown[..20]);
                assert!(shown.ends_with(if rest.is_empty() { "x" } else { "last line" }));
            }
        }
    }

    #[tokio::test]
    async fn callback_gets_lines_and_tail_is_masked() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let callback: StderrCallback = {
            let lines = Arc::clone(&lines);
            Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
        };
        let output = "first\nthe key is sk-12345678\r\n\u{1b}[31mred\u{1b}[0m\nrest";
        let secrets = secrets("sk-12345678");
        let stderr = StderrTail::spawn(std::io::Cursor::new(output), secrets, Some(callback));
        stderr.drained().await;
        let lines = lines.lock().unwrap().clone();
        assert_eq!(lines[..2], ["first", "the key is sk-12345678"]);
        assert_eq!(lines[3], "rest");
        assert_eq!(stderr.last_lines(), "first\nthe key is ***\nred\nrest");
    }

    #[tokio::test]
    async fn panicking_callback_does_not_stop_reading() {
        let callback: StderrCallback = Arc::new(|_: &str| panic!("no"));
        let stderr = StderrTail::spawn(
            std::io::Cursor::new("a\nb\n"),
            SecretMask::default(),
            Some(callback),
        );
        stderr.drained().await;
        assert_eq!(stderr.last_lines(), "a\nb");
    }
}
