//! The stages of a connection attempt and their durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde::Serialize;

/// The stages of a connection attempt, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConnectStage {
    /// Starting the process, or opening the TCP connection.
    Open,
    /// The TLS handshake.
    Secure,
    /// Waiting for signs of life: the process keeps running, or the URL responds like an MCP
    /// server.
    Alive,
    /// Authorizing requests: the server accepts the credential.
    Login,
    /// The MCP handshake, which agrees on a protocol version.
    Handshake,
    /// Listing the tools of the server.
    Listing,
}

/// The stage of the connection attempt in progress. Clones share the value.
#[derive(Clone, Debug, Default)]
pub struct CurrentStage(Arc<AtomicU8>);

impl CurrentStage {
    const STAGES: [ConnectStage; 3] = [
        ConnectStage::Open,
        ConnectStage::Handshake,
        ConnectStage::Listing,
    ];

    /// Sets the stage. Only [`ConnectStage::Open`], [`ConnectStage::Handshake`] and
    /// [`ConnectStage::Listing`] are told apart; other stages count as [`ConnectStage::Open`].
    pub fn set(&self, stage: ConnectStage) {
        let index = Self::STAGES.iter().position(|known| *known == stage);
        let index = u8::try_from(index.unwrap_or_default()).unwrap_or_default();
        self.0.store(index, Ordering::Relaxed);
    }

    /// The stage that was set last. At first [`ConnectStage::Open`].
    pub fn get(&self) -> ConnectStage {
        let index = usize::from(self.0.load(Ordering::Relaxed));
        let stage = Self::STAGES.get(index).copied();
        stage.unwrap_or(ConnectStage::Open)
    }
}

/// The outcome of a connection attempt: the stage that failed, and how long the completed steps
/// took. Durations are serialized in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectAttempt {
    /// The stage that failed; `None` if the attempt succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<ConnectStage>,
    /// Time from the start of the attempt until the process was running or the connection was open.
    /// Streamable HTTP opens its connection with the first request, so there the time of the
    /// connection counts as `handshake`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub opening: Option<Duration>,
    /// Time from the end of `opening` until the MCP handshake was complete.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub handshake: Option<Duration>,
    /// Time from the end of `handshake` until the tools were listed.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub listing: Option<Duration>,
}

impl ConnectAttempt {
    /// Describes an attempt that failed at `stage`, without durations.
    pub fn failed_at(stage: ConnectStage) -> Self {
        Self {
            failed_at: Some(stage),
            ..Self::default()
        }
    }
}

/// Serializes a duration as whole milliseconds.
pub fn as_milliseconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&time.map(|time| u64::try_from(time.as_millis()).ok()))
}
