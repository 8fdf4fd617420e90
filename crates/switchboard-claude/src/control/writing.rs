//! The one task that writes to the CLI.
//!
//! Invariant: lines leave whole and in the order in which they came. When the connection is to be
//! closed, what is in the queue still leaves if the CLI takes it soon, and then the CLI sees the end of its
//! input.

use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::ending::TO_LEAVE;

/// How many lines wait at most. Whoever has more to say waits, with what it has to say.
pub(super) const WAITING: usize = 64;
/// Short lines leave together, up to this many bytes.
const TOGETHER: usize = 64 * 1024;

/// Why nothing more is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteEnd {
    /// It was closed.
    Closed,
    /// The CLI has closed its input.
    Broken,
    /// The CLI does not read.
    Stalled,
}

pub(super) struct Writer<W> {
    pub(super) stream: W,
    pub(super) lines: mpsc::Receiver<Vec<u8>>,
    pub(super) closing: CancellationToken,
    /// How long the CLI may take to read anything at all.
    pub(super) patience: Duration,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) async fn run(self) -> WriteEnd {
        let closing = self.closing.clone();
        let too_late = async {
            closing.cancelled().await;
            sleep(TO_LEAVE).await;
        };
        tokio::select! {
            biased;
            end = self.write_all() => end,
            () = too_late => WriteEnd::Stalled,
        }
    }

    async fn write_all(mut self) -> WriteEnd {
        while let Some(mut line) = self.next().await {
            while line.len() < TOGETHER
                && let Ok(more) = self.lines.try_recv()
            {
                line.extend(more);
            }
            if let Err(end) = self.write(&line).await {
                return end;
            }
        }
        let _ = timeout(self.patience, self.stream.shutdown()).await;
        WriteEnd::Closed
    }

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

    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), WriteEnd> {
        while !bytes.is_empty() {
            match timeout(self.patience, self.stream.write(bytes)).await {
                Err(_) => return Err(WriteEnd::Stalled),
                Ok(Err(_) | Ok(0)) => return Err(WriteEnd::Broken),
                Ok(Ok(count)) => bytes = bytes.get(count..).unwrap_or_default(),
            }
        }
        match timeout(self.patience, self.stream.flush()).await {
            Err(_) => Err(WriteEnd::Stalled),
            Ok(Err(_)) => Err(WriteEnd::Broken),
            Ok(Ok(())) => Ok(()),
        }
    }
}
