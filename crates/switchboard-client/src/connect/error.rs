//! Why a connection attempt failed.
//!
//! The errors carry data. The caller of [`connect`](super::connect) adds texts that name config
//! keys or commands.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "stdio")]
use switchboard_process::SpawnError;

use super::negotiate::HandshakeRejection;
use crate::auth::LoginRequired;
use crate::connect_stage::ConnectStage;
use crate::session::{RequestError, TransportFailure};

/// Why a connection attempt failed, or why an established session ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// The child process was not started.
    #[cfg(feature = "stdio")]
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The embedder's [`Connector`](switchboard_wire::Connector) failed.
    #[error("could not connect: {0}")]
    Connector(String),
    /// The in-process server panicked when its notification channel, capabilities, implementation
    /// or instructions were requested.
    #[error("{0}")]
    Defective(String),
    /// The process exited or the session ended, during the handshake or later.
    #[error("{reason}{output}")]
    SessionEnded {
        /// How the process exited, or the transport error.
        reason: String,
        /// What the server printed.
        output: ServerOutput,
    },
    /// The server responded, but the handshake failed.
    #[error("{0}")]
    Rejected(HandshakeRejection),
    /// The connection failed, or the server responded with an HTTP error.
    #[error("{0}")]
    Unreachable(TransportFailure),
    /// The server responded to `initialize`, or to the GET of HTTP+SSE, with the status 400, 404 or
    /// 405.
    #[error("{0}")]
    NotStreamable(TransportFailure),
    /// Neither streamable HTTP nor HTTP+SSE works at the URL. Holds the error of streamable HTTP.
    #[error("{0}")]
    NoHttpTransport(TransportFailure),
    /// The server requires a login.
    #[error("{0}")]
    NeedsLogin(Box<LoginRequired>),
    /// The connection was not open, or the handshake not complete, within the startup deadline.
    #[error("no response to the handshake within {limit:?}{output}")]
    TimedOut {
        /// The startup deadline.
        limit: Duration,
        /// What the server printed.
        output: ServerOutput,
    },
}

/// What a server printed before it failed, displayed as the end of an error message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOutput {
    /// The last lines on stderr. Empty if there are none.
    pub stderr: String,
    /// An excerpt of the last line on stdout that was not an MCP message.
    pub stray_stdout: Option<String>,
}

impl ServerOutput {
    /// Whether a line on stderr mentions an error, such as `npm error code ENOTFOUND`.
    pub fn mentions_error(&self) -> bool {
        const WORDS: [&str; 5] = ["error", "exception", "fatal", "enotfound", "econnrefused"];
        let text = self.stderr.to_ascii_lowercase();
        WORDS.iter().any(|word| text.contains(word))
    }
}

impl fmt::Display for ServerOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = &self.stray_stdout {
            write!(
                f,
                "; it printed {line:?} on stdout, which is not an MCP message"
            )?;
        }
        if !self.stderr.is_empty() {
            write!(f, "; last lines of its stderr:\n{}", self.stderr)?;
        }
        Ok(())
    }
}

impl ConnectError {
    /// Whether another attempt would fail for the same reason until the user changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            #[cfg(feature = "stdio")]
            Self::Spawn(error) => !matches!(error, SpawnError::Other { .. }),
            Self::Defective(_) | Self::Rejected(_) | Self::NeedsLogin(_) => true,
            Self::Connector(_)
            | Self::SessionEnded { .. }
            | Self::Unreachable(_)
            | Self::NotStreamable(_)
            | Self::NoHttpTransport(_)
            | Self::TimedOut { .. } => false,
        }
    }

    /// Whether the server was started or reached, and its process exited or the session ended after
    /// that.
    pub fn is_crash(&self) -> bool {
        matches!(self, Self::SessionEnded { .. })
    }

    /// The stage of the connection attempt that failed.
    pub fn stage(&self) -> ConnectStage {
        match self {
            #[cfg(feature = "stdio")]
            Self::Spawn(_) => ConnectStage::Open,
            Self::Connector(_) | Self::Defective(_) => ConnectStage::Open,
            Self::Unreachable(failure)
            | Self::NotStreamable(failure)
            | Self::NoHttpTransport(failure) => failure.stage,
            Self::SessionEnded { .. } => ConnectStage::Alive,
            Self::NeedsLogin(_) => ConnectStage::Login,
            Self::Rejected(_) | Self::TimedOut { .. } => ConnectStage::Handshake,
        }
    }

    /// `Retry-After`: how long the server asks the client to wait before the next attempt. `None`
    /// if the server did not ask for a delay.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unreachable(failure) => failure.retry_after,
            _ => None,
        }
    }

    /// Whether the attempt failed after the server was reached and before the end of the handshake.
    /// Also true for each timeout of the attempt.
    pub(super) fn failed_in_handshake(&self) -> bool {
        matches!(self.stage(), ConnectStage::Alive | ConnectStage::Handshake)
    }

    /// Turns the error of streamable HTTP into the error for a URL at which HTTP+SSE failed, too.
    #[cfg(feature = "http")]
    pub(super) fn into_no_transport(self) -> Self {
        match self {
            Self::NotStreamable(failure) => Self::NoHttpTransport(failure),
            other => other,
        }
    }
}

/// Maps an error of an HTTP request of the handshake to the error of the connection attempt.
pub(super) fn http_connect_error(error: RequestError) -> ConnectError {
    match error {
        RequestError::NeedsLogin(login) => ConnectError::NeedsLogin(login),
        RequestError::Transport(failure) => match failure.status {
            Some(400 | 404 | 405) => ConnectError::NotStreamable(failure),
            _ => ConnectError::Unreachable(failure),
        },
        RequestError::InvalidResponse(error) => {
            ConnectError::Rejected(HandshakeRejection::InvalidResponse(error))
        }
        RequestError::ErrorResponse(error) => {
            ConnectError::Rejected(HandshakeRejection::ErrorResponse(error))
        }
        other => ConnectError::Unreachable(TransportFailure::unknown(other.to_string())),
    }
}
