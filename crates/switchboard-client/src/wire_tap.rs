//! Lets the embedding program observe the raw messages that sessions send and receive.

use switchboard_wire::id::ServerName;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this program to the server.
    Sent,
    /// From the server to this program.
    Received,
}

/// Receives a copy of the JSON-RPC messages that are exchanged with a server outside this process.
/// Received messages that exceed a size or memory limit are not reported.
///
/// The session waits for each call, so an implementation must return quickly. Values of `env` and
/// `headers` of the config entry are masked in the copy.
pub trait WireTap: Send + Sync + 'static {
    /// Called with the JSON text of one message that the session sent or received, and with each
    /// received line that is not a message.
    fn line(&self, server: &ServerName, direction: Direction, text: &str);
}
