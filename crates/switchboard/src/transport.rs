//! Ways to a server: what is opened, and what has to be closed again.
//!
//! A transport yields streams (or a server in this process) and, where there is one, the child
//! that must not survive. It knows nothing of requests.

pub(crate) mod environment;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod proxy;
pub(crate) mod remote;
pub(crate) mod stderr;
pub(crate) mod stdio;

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::interact::BoxFuture;
use crate::session::Streams;

/// Opens a connection to a server that speaks the stdio framing over some stream of bytes: a
/// socket, an SSH channel, a pipe made by hand. Asked again for every reconnect.
pub trait Dial: Send + Sync + 'static {
    /// Opens one connection.
    fn dial(&self) -> BoxFuture<'_, io::Result<ByteStreams>>;
}

/// Both directions of a connection made by a [`Dial`].
pub struct ByteStreams(pub(crate) Streams);

impl ByteStreams {
    /// What the server writes, and what it reads.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self(Streams {
            reader: Box::new(reader),
            writer: Box::new(writer),
        })
    }
}

impl std::fmt::Debug for ByteStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByteStreams")
    }
}
