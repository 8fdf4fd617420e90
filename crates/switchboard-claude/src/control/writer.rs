//! The task that writes to the input of the CLI.
//!
//! Invariant: lines are written whole and in the order in which they were queued. When the
//! connection closes, the task writes the queued lines, for at most [`EXIT_GRACE`], and then closes
//! the input of the CLI.

use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::shutdown::EXIT_GRACE;

/// Capacity of the queue, in lines. If the queue is full, the senders wait: request handlers,
/// callers of `Client`, and the task that forwards notifications, but never the reader.
pub(super) const QUEUE_LINES: usize = 64;
/// Queued lines are joined into one write until it has at least this many bytes.
const BATCH_BYTES: usize = 64 * 1024;

/// Why the writer task ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriterExit {
    /// This program closed the input of the CLI after all queued lines were written.
    Closed,
    /// The CLI closed its end of the input, so that writing failed.
    BrokenPipe,
    /// The CLI did not read its input: a write took longer than `write_timeout`, or the queue was
    /// not written within [`EXIT_GRACE`] after the connection closed.
    Stalled,
}

pub(super) struct Writer<W> {
    pub(super) stream: W,
    pub(super) lines: mpsc::Receiver<Vec<u8>>,
    pub(super) closing: CancellationToken,
    /// Maximum duration of a single write. After that, the CLI counts as stalled.
    pub(super) write_timeout: Duration,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) async fn run(self) -> WriterExit {
        let closing = self.closing.clone();
        let grace_over = async {
            closing.cancelled().await;
            sleep(EXIT_GRACE).await;
        };
        tokio::select! {
            biased;
            exit = self.write_all() => exit,
            () = grace_over => WriterExit::Stalled,
        }
    }

    async fn write_all(mut self) -> WriterExit {
        while let Some(mut batch) = self.next().await {
            while batch.len() < BATCH_BYTES
                && let Ok(line) = self.lines.try_recv()
            {
                batch.extend(line);
            }
            if let Err(exit) = self.write(&batch).await {
                return exit;
            }
        }
        let _ = timeout(self.write_timeout, self.stream.shutdown()).await;
        WriterExit::Closed
    }

    /// Returns the next line. After the connection has closed, returns the remaining queued lines
    /// and then `None`.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if !self.lines.is_closed() {
            tokio::select! {
                biased;
                () = self.closing.cancelled() => self.lines.close(),
                line = self.lines.recv() => return line,
            }
        }
        self.lines.recv().await
    }

    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), WriterExit> {
        while !bytes.is_empty() {
            match timeout(self.write_timeout, self.stream.write(bytes)).await {
                Err(_) => return Err(WriterExit::Stalled),
                Ok(Err(_) | Ok(0)) => return Err(WriterExit::BrokenPipe),
                Ok(Ok(count)) => bytes = bytes.get(count..).unwrap_or_default(),
            }
        }
        match timeout(self.write_timeout, self.stream.flush()).await {
            Err(_) => Err(WriterExit::Stalled),
            Ok(Err(_)) => Err(WriterExit::BrokenPipe),
            Ok(Ok(())) => Ok(()),
        }
    }
}
