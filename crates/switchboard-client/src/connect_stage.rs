//! The stages of a connection attempt and their durations.

use std::time::Duration;

use serde::Serialize;

/// The stages of a connection attempt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConnectStage {
    /// Starting the process, or opening the TCP connection.
    Open,
    /// The TLS handshake.
    Secure,
    /// The process keeps running, or the endpoint responds like an MCP server.
    Alive,
    /// The server accepts the credentials.
    Login,
    /// The MCP handshake, which agrees on a protocol version.
    Handshake,
    /// Listing the tools.
    Listing,
}

/// How far a connection attempt got. Durations are serialized in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectAttempt {
    /// The stage that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<ConnectStage>,
    /// Time until the process was running or the stream was open.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub opening: Option<Duration>,
    /// Time from there until the MCP handshake was complete.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub handshake: Option<Duration>,
    /// Time from there until the tools were listed.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub listing: Option<Duration>,
}

impl ConnectAttempt {
    /// An attempt that failed at `stage`.
    pub fn failed_at(stage: ConnectStage) -> Self {
        Self {
            failed_at: Some(stage),
            ..Self::default()
        }
    }
}

#[expect(
    clippy::ref_option,
    reason = "serde requires this signature of `serialize_with`"
)]
fn as_milliseconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&time.map(|time| u64::try_from(time.as_millis()).ok()))
}
