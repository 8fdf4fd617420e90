//! Seeing what goes over the wire.

use crate::id::ServerName;

/// Which way a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From us to the server.
    Sent,
    /// From the server to us.
    Received,
}

/// Watches the wire traffic of text transports. Called in the middle of things: be quick.
///
/// Values of the entry's `env` and `headers` are masked before a line gets here.
pub trait WireTap: Send + Sync + 'static {
    /// One line was sent or received.
    fn line(&self, server: &ServerName, direction: Direction, text: &str);
}

pub(crate) use switchboard_wire::redact::Redactor;
