//! Observation of the raw messages that are exchanged with a server.

use switchboard_wire::id::ServerName;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this program to the server.
    Sent,
    /// From the server to this program.
    Received,
}

/// Receives a copy of every JSON-RPC message of a server.
///
/// The session calls it on its hot path, so an implementation must return quickly. Values of the
/// entry's `env` and `headers` are masked before the call.
pub trait WireTap: Send + Sync + 'static {
    /// Receives one message that was sent or received.
    fn line(&self, server: &ServerName, direction: Direction, text: &str);
}
