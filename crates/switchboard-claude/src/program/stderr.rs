//! What the CLI writes to stderr: handed to the user line by line, and the end of it kept.
//!
//! It is always read, so that the CLI never blocks on it. Invariant: no more than the last bytes are
//! kept, and no secret of the environment is repeated.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switchboard::content::sanitize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Secrets;

/// How many lines an error message shows.
const SHOWN_LINES: usize = 12;
const KEPT_BYTES: usize = 16 * 1024;
const READ_BYTES: usize = 8 * 1024;
/// A line that is longer is handed over in pieces.
const LONGEST_LINE: usize = 64 * 1024;

/// What is done with each line.
pub(crate) type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// The end of what the CLI wrote; shared with the task that reads it.
#[derive(Clone, Debug)]
pub(crate) struct Stderr {
    kept: Arc<Mutex<Kept>>,
    secrets: Secrets,
    drained: CancellationToken,
    /// The task that reads; it ends with the CLI.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Something went before it.
    is_cut: bool,
}

impl Stderr {
    pub(crate) fn spawn(
        stream: impl AsyncRead + Send + Unpin + 'static,
        secrets: Secrets,
        on_line: Option<OnLine>,
    ) -> Self {
        let stderr = Self {
            kept: Arc::default(),
            secrets,
            drained: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let reading = stderr.clone();
        stderr.tasks.spawn(async move {
            reading.drain(stream, on_line).await;
            reading.drained.cancel();
        });
        stderr
    }

    async fn drain(&self, mut stream: impl AsyncRead + Unpin, on_line: Option<OnLine>) {
        let mut buffer = vec![0; READ_BYTES];
        let mut teller = on_line.map(|on_line| Teller {
            on_line,
            begun: Vec::new(),
        });
        while let Ok(count) = stream.read(&mut buffer).await {
            let read = buffer.get(..count).unwrap_or_default();
            if read.is_empty() {
                break;
            }
            self.keep(read);
            // One that panics is not called again.
            teller = teller.and_then(|teller| teller.tell(read));
        }
        if let Some(teller) = teller {
            teller.finish();
        }
    }

    fn keep(&self, read: &[u8]) {
        let mut kept = self.lock();
        kept.bytes.extend(read);
        let surplus = kept.bytes.len().saturating_sub(KEPT_BYTES);
        kept.bytes.drain(..surplus);
        kept.is_cut |= surplus > 0;
    }

    /// Comes back when there is nothing more to read.
    pub(crate) async fn drained(&self) {
        self.drained.cancelled().await;
    }

    /// The last lines, safe to print; empty when the CLI said nothing.
    pub(crate) fn last_lines(&self) -> String {
        let (bytes, is_cut) = {
            let kept = self.lock();
            let bytes: Vec<u8> = kept.bytes.iter().copied().collect();
            (bytes, kept.is_cut)
        };
        let text = String::from_utf8_lossy(&bytes);
        let text = if is_cut {
            let text = self.secrets.masked_rest(&text);
            // Half a line says little, and may begin in the middle of something.
            let whole = text.split_once('\n').map(|(_, whole)| whole.to_owned());
            whole.unwrap_or(text)
        } else {
            self.secrets.masked(&text)
        };
        let text = self.secrets.masked(&sanitize(&text));
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<_> = lines.collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands on lines.
struct Teller {
    on_line: OnLine,
    begun: Vec<u8>,
}

impl Teller {
    fn tell(mut self, read: &[u8]) -> Option<Self> {
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend(piece);
            if piece.ends_with(b"\n") || self.begun.len() >= LONGEST_LINE {
                self = self.hand_over()?;
            }
        }
        Some(self)
    }

    fn finish(self) {
        if !self.begun.is_empty() {
            self.hand_over();
        }
    }

    fn hand_over(mut self) -> Option<Self> {
        let line = String::from_utf8_lossy(&self.begun);
        let line = line.trim_end_matches(['\n', '\r']);
        let told = catch_unwind(AssertUnwindSafe(|| (self.on_line)(line)));
        told.ok()?;
        self.begun.clear();
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(secret: &str) -> Secrets {
        Secrets::of(&[("A_KEY".to_owned(), secret.to_owned())].into())
    }

    #[tokio::test]
    async fn what_is_kept_does_not_begin_within_a_secret() {
        const SECRET: &str = "sk-12345678";
        for begun in 1..SECRET.len() {
            for rest in ["", "\nlast line"] {
                let padding = "x".repeat(KEPT_BYTES - (SECRET.len() - begun) - rest.len());
                let said = format!("before {SECRET}{padding}{rest}");
                let said = std::io::Cursor::new(said);
                let stderr = Stderr::spawn(said, secrets(SECRET), None);
                stderr.drained().await;
                let shown = stderr.last_lines();
                assert!(!shown.contains('8'), "{}", &shown[..20]);
                assert!(shown.ends_with(if rest.is_empty() { "x" } else { "last line" }));
            }
        }
    }

    #[tokio::test]
    async fn lines_are_handed_on_and_the_last_ones_kept_without_secrets() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let on_line: OnLine = {
            let told = Arc::clone(&told);
            Arc::new(move |line: &str| told.lock().unwrap().push(line.to_owned()))
        };
        let said = "first\nthe key is sk-12345678\r\n\u{1b}[31mred\u{1b}[0m\nrest";
        let secrets = secrets("sk-12345678");
        let stderr = Stderr::spawn(std::io::Cursor::new(said), secrets, Some(on_line));
        stderr.drained().await;
        let told = told.lock().unwrap().clone();
        assert_eq!(told[..2], ["first", "the key is sk-12345678"]);
        assert_eq!(told[3], "rest");
        assert_eq!(stderr.last_lines(), "first\nthe key is ***\nred\nrest");
    }

    #[tokio::test]
    async fn a_callback_that_panics_stops_nothing() {
        let on_line: OnLine = Arc::new(|_: &str| panic!("no"));
        let stderr = Stderr::spawn(
            std::io::Cursor::new("a\nb\n"),
            Secrets::default(),
            Some(on_line),
        );
        stderr.drained().await;
        assert_eq!(stderr.last_lines(), "a\nb");
    }
}
