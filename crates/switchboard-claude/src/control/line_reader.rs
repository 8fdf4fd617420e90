//! Splits the output of the CLI into lines of bounded length.
//!
//! Invariant: the reader buffers at most one incomplete line and the bytes of one read.
//! [`LineReader::next`] is cancel-safe: no byte is lost if its future is dropped.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// Maximum number of bytes that one read returns.
const READ_BYTES: usize = 64 * 1024;

/// Why the reader cannot return another line.
#[derive(Debug)]
pub(super) enum LineError {
    EndOfStream,
    TooLong,
    Io(io::Error),
}

#[derive(Debug)]
pub(super) struct LineReader<R> {
    stream: BufReader<R>,
    /// The beginning of a line whose line feed has not arrived yet.
    partial: Vec<u8>,
    max_bytes: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(stream: R, max_bytes: usize) -> Self {
        Self {
            stream: BufReader::with_capacity(READ_BYTES, stream),
            partial: Vec::new(),
            max_bytes,
        }
    }

    /// Reads the next line and returns it without its line feed.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, LineError> {
        let remaining = (self.max_bytes + 1).saturating_sub(self.partial.len());
        let remaining = u64::try_from(remaining).unwrap_or(u64::MAX);
        let mut bounded = (&mut self.stream).take(remaining);
        let read = bounded.read_until(b'\n', &mut self.partial).await;
        read.map_err(LineError::Io)?;
        if self.partial.last() == Some(&b'\n') {
            self.partial.pop();
            return Ok(std::mem::take(&mut self.partial));
        }
        if self.partial.len() > self.max_bytes {
            return Err(LineError::TooLong);
        }
        Err(LineError::EndOfStream)
    }

    /// Takes the bytes after the last line feed, which form an incomplete line. Call it after
    /// [`LineError::EndOfStream`].
    pub(super) fn take_partial(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unterminated_last_line_is_partial() {
        let mut lines = LineReader::new(&b"one\n\ntwo\r\nthr"[..], 5);
        assert_eq!(lines.next().await.unwrap(), b"one");
        assert_eq!(lines.next().await.unwrap(), b"");
        assert_eq!(lines.next().await.unwrap(), b"two\r");
        assert!(matches!(lines.next().await, Err(LineError::EndOfStream)));
        assert_eq!(lines.take_partial(), b"thr");
    }

    #[tokio::test]
    async fn too_long_line_is_not_buffered() {
        let long = [b"12345\n".as_slice(), &[b'x'; 6]].concat();
        let mut lines = LineReader::new(&long[..], 5);
        assert_eq!(lines.next().await.unwrap(), b"12345");
        assert!(matches!(lines.next().await, Err(LineError::TooLong)));
        assert!(lines.take_partial().len() <= 6);
    }

    #[tokio::test]
    async fn dropped_read_loses_no_byte() {
        let (mut cli, stream) = tokio::io::duplex(64);
        let mut lines = LineReader::new(stream, 100);
        tokio::io::AsyncWriteExt::write_all(&mut cli, b"ha")
            .await
            .unwrap();
        let soon = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, lines.next()).await.is_err());
        tokio::io::AsyncWriteExt::write_all(&mut cli, b"lf\n")
            .await
            .unwrap();
        assert_eq!(lines.next().await.unwrap(), b"half");
    }
}
