//! Incremental gzip decoder.
//!
//! Invariant: each decoded chunk has a bounded size, so that `Body` can check the decoded size
//! against its limit before it keeps the chunk.

use std::io::{self, Write as _};

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;

/// The decoder returns a chunk when it reaches this size. A chunk may be up to 32 KiB longer,
/// because each decoding step adds at most 32 KiB.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) struct GzipDecoder {
    decoder: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
    /// Whether the body contained any bytes. An empty body is accepted, although empty gzip data is
    /// invalid.
    has_input: bool,
}

impl Default for GzipDecoder {
    fn default() -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            input: Bytes::new(),
            has_input: false,
        }
    }
}

impl GzipDecoder {
    /// Sets the next input and discards the previous one. Call it only after
    /// [`next_chunk`](Self::next_chunk) returned `None`.
    pub(super) fn set_input(&mut self, input: Bytes) {
        self.has_input |= !input.is_empty();
        self.input = input;
    }

    /// Decodes the next chunk. Returns `None` when the input is used up.
    pub(super) fn next_chunk(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() && self.decoder.get_ref().len() < CHUNK_BYTES {
            let consumed = self.decoder.write(&self.input)?;
            if consumed == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.input.advance(consumed);
        }
        if self.input.is_empty() && self.has_input {
            self.decoder.flush()?;
        }
        Ok(self.take_output())
    }

    /// Returns the last chunk after the end of the body, if any is left. Fails if the gzip data is
    /// incomplete.
    pub(super) fn finish(&mut self) -> io::Result<Option<Bytes>> {
        if self.has_input {
            self.decoder.try_finish()?;
        }
        Ok(self.take_output())
    }

    fn take_output(&mut self) -> Option<Bytes> {
        let chunk = std::mem::take(self.decoder.get_mut());
        (!chunk.is_empty()).then(|| Bytes::from(chunk))
    }
}
