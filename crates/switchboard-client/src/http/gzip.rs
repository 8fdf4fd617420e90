//! gzip, undone piece by piece.
//!
//! Invariant: a piece is of bounded size however much its data inflates to, so that a limit on the
//! decoded size is met before the memory is used.

use std::io::{self, Write as _};

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;

/// When a piece is handed over. The decoder adds at most its own buffer of 32 KiB at a time.
const PIECE: usize = 64 * 1024;

pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
    began: bool,
}

impl Default for Gunzip {
    fn default() -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            input: Bytes::new(),
            began: false,
        }
    }
}

impl Gunzip {
    /// Adds what came in; the piece before has to be used up.
    pub(super) fn put(&mut self, input: Bytes) {
        self.began |= !input.is_empty();
        self.input = input;
    }

    /// What the input so far comes to, up to a piece at a time. None: more input is needed.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() && self.decoder.get_ref().len() < PIECE {
            let used = self.decoder.write(&self.input)?;
            if used == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.input.advance(used);
        }
        if self.input.is_empty() && self.began {
            self.decoder.flush()?;
        }
        Ok(self.taken())
    }

    /// What is left at the end of the body, which has to be the end of the data too.
    pub(super) fn finish(&mut self) -> io::Result<Option<Bytes>> {
        if self.began {
            self.decoder.try_finish()?;
        }
        Ok(self.taken())
    }

    fn taken(&mut self) -> Option<Bytes> {
        let piece = std::mem::take(self.decoder.get_mut());
        (!piece.is_empty()).then(|| Bytes::from(piece))
    }
}
