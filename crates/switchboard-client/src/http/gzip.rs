//! Incremental gzip decoder.
//!
//! Invariant: each decoded chunk has a bounded size, so that the caller can enforce a limit on the
//! decoded size before the memory is used.

use std::io::{self, Write as _};

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;

/// Decoding pauses when the chunk reaches this size. The decoder adds at most 32 KiB at a time.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) struct GzipDecoder {
    decoder: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
    /// Whether any input arrived. An empty body is valid although it is not valid gzip.
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
    /// Sets the next input. Call it only after [`next_chunk`](Self::next_chunk) returned `None`.
    pub(super) fn set_input(&mut self, input: Bytes) {
        self.has_input |= !input.is_empty();
        self.input = input;
    }

    /// Decodes the next chunk. Returns `None` when more input is needed.
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

    /// Returns the rest at the end of the body. Fails if the gzip data is incomplete.
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
