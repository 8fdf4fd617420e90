//! Custom byte-stream transports: the trait that opens a connection, and the pair of streams it
//! returns.
//!
//! The streams carry newline-delimited JSON-RPC. This module neither reads nor writes them: framing
//! is in `lines`, sessions are in the client and server crates.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::BoxFuture;

/// Opens connections to a server that speaks newline-delimited JSON-RPC over a byte stream: a
/// socket, an SSH channel, a pipe.
///
/// Every reconnect calls [`connect`](Self::connect) again.
pub trait Connector: Send + Sync + 'static {
    /// Opens one connection.
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>>;
}

/// Both directions of one connection.
pub struct ByteStreams {
    /// Carries what the server writes.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Carries what the server reads.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl ByteStreams {
    /// Pairs the stream that the server writes to with the stream that it reads from.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
        }
    }
}

impl fmt::Debug for ByteStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStreams")
    }
}
