//! Lines out of what the CLI writes, each of bounded length.
//!
//! Invariant: no more than one line and one read are held. [`Lines::next`] may be given up and asked
//! again without a byte being lost.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Why there are no more lines.
#[derive(Debug)]
pub(super) enum NoLine {
    /// The stream is over.
    End,
    TooLong,
    Failed(io::Error),
}

#[derive(Debug)]
pub(super) struct Lines<R> {
    stream: BufReader<R>,
    /// What is there of the line that is coming in.
    begun: Vec<u8>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(stream: R, limit: usize) -> Self {
        Self {
            stream: BufReader::with_capacity(READ_BYTES, stream),
            begun: Vec::new(),
            limit,
        }
    }

    /// The next line, without its end.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, NoLine> {
        let room = (self.limit + 1).saturating_sub(self.begun.len());
        let room = u64::try_from(room).unwrap_or(u64::MAX);
        let mut bounded = (&mut self.stream).take(room);
        let read = bounded.read_until(b'\n', &mut self.begun).await;
        read.map_err(NoLine::Failed)?;
        if self.begun.last() == Some(&b'\n') {
            self.begun.pop();
            return Ok(std::mem::take(&mut self.begun));
        }
        if self.begun.len() > self.limit {
            return Err(NoLine::TooLong);
        }
        Err(NoLine::End)
    }

    /// What stands after the last line end, when the stream is over.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_at_their_ends_and_the_rest_is_kept() {
        let mut lines = Lines::new(&b"one\n\ntwo\r\nthr"[..], 5);
        assert_eq!(lines.next().await.unwrap(), b"one");
        assert_eq!(lines.next().await.unwrap(), b"");
        assert_eq!(lines.next().await.unwrap(), b"two\r");
        assert!(matches!(lines.next().await, Err(NoLine::End)));
        assert_eq!(lines.rest(), b"thr");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_not_held() {
        let long = [b"12345\n".as_slice(), &[b'x'; 6]].concat();
        let mut lines = Lines::new(&long[..], 5);
        assert_eq!(lines.next().await.unwrap(), b"12345");
        assert!(matches!(lines.next().await, Err(NoLine::TooLong)));
        assert!(lines.rest().len() <= 6);
    }

    #[tokio::test]
    async fn giving_up_loses_nothing() {
        let (mut there, here) = tokio::io::duplex(64);
        let mut lines = Lines::new(here, 100);
        tokio::io::AsyncWriteExt::write_all(&mut there, b"ha")
            .await
            .unwrap();
        let soon = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, lines.next()).await.is_err());
        tokio::io::AsyncWriteExt::write_all(&mut there, b"lf\n")
            .await
            .unwrap();
        assert_eq!(lines.next().await.unwrap(), b"half");
    }
}
