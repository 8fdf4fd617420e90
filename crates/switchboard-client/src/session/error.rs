//! [`SessionEnd`]: why a session ended. [`RequestError`]: why a request failed, and whether the
//! server may have received it.

use std::fmt;
use std::time::Duration;

use super::deadline::Expired;
use crate::auth::LoginRequired;
use crate::connect_stage::ConnectStage;
use crate::delivery::Delivery;
use switchboard_wire::jsonrpc::InvalidMessage;
use switchboard_wire::limits::truncate_to_millis;
use switchboard_wire::mcp::ErrorObject;

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The server closed its output.
    Eof {
        /// An excerpt of the bytes after the last line end. `None` if there were no such bytes, or
        /// if they were a complete message.
        partial_line: Option<String>,
    },
    /// Reading from or writing to the byte stream failed. Holds the error message.
    Io(String),
    /// The server sent a message without an end. The session gives up at eight times the limit
    /// `message_bytes`.
    Unterminated,
    /// The server behind a URL cannot be reached or does not respond. Holds the message.
    Unreachable(String),
    /// The server no longer knows the HTTP session id. The owner of the server reconnects
    /// immediately, unless sessions expire in quick succession.
    Expired,
    /// Too many consecutive HTTP requests failed. Holds the error of the last one.
    TooManyFailures(String),
    /// The server requires a login.
    NeedsLogin(Box<LoginRequired>),
    /// The client closed the session.
    Closed,
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eof { partial_line: None } => f.write_str("the server closed the connection"),
            Self::Eof {
                partial_line: Some(text),
            } => {
                write!(
                    f,
                    "the server closed the connection in the middle of a message: {text:?}"
                )
            }
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::Unterminated => f.write_str("the server sent a message without an end"),
            Self::Unreachable(reason) => f.write_str(reason),
            Self::Expired => f.write_str("the server no longer knows the session"),
            Self::TooManyFailures(last) => {
                write!(f, "too many requests failed in a row, the last: {last}")
            }
            Self::NeedsLogin(login) => login.fmt(f),
            Self::Closed => f.write_str("the connection was closed"),
        }
    }
}

/// Why a request has no usable response.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// The session ended before the response.
    #[error("{end}")]
    Lost { delivery: Delivery, end: SessionEnd },
    /// The server responded that it does not know the HTTP session id, and the session has ended.
    /// By the protocol the server did not execute the request, so its delivery is *not sent*. A
    /// tool call is still not sent again, because the server received it.
    #[error("the server no longer knows the session, so it did not execute the request")]
    UnknownSession,
    #[error(
        "the write queue is full: unsent messages may take {limit} bytes (limit `writeQueueBytes`)"
    )]
    WriteQueueFull { limit: usize },
    #[error(
        "not enough memory: the messages in flight already take {limit} bytes (limit `memoryBytes`)"
    )]
    MemoryBudgetExceeded { limit: usize },
    #[error("the request is longer than {limit} bytes (limit `messageBytes`)")]
    TooLong { limit: usize },
    /// The server responded with a JSON-RPC error.
    #[error("the server returned an error: {0}")]
    ErrorResponse(ErrorObject),
    #[error("invalid response: {0}")]
    InvalidResponse(InvalidMessage),
    /// The transport failed for this request. The session may still be open.
    #[error(transparent)]
    Transport(TransportFailure),
    #[error("{0}")]
    NeedsLogin(Box<LoginRequired>),
    #[error("{}{}", timeout_message(*.after, *.idle), stray.note())]
    TimedOut {
        /// The idle limit or the total time limit that was exceeded, depending on `idle`.
        after: Duration,
        /// `true`: the server was idle for too long. `false`: the request took too long in total.
        idle: bool,
        delivery: Delivery,
        /// What the server sent instead of a response after the request was sent.
        stray: StrayOutput,
    },
}

/// A failure of the transport that fails one request, but not necessarily the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportFailure {
    pub delivery: Delivery,
    /// Status of the HTTP response. `None` if no response arrived, or if its body could not be read
    /// to the end.
    pub status: Option<u16>,
    /// `Retry-After`: how long the server asks the client to wait before the next request.
    pub(crate) retry_after: Option<Duration>,
    pub message: String,
    /// What the user can do about the failure.
    pub hint: Option<String>,
    /// The stage at which a connection attempt failed, if this failure ended the attempt.
    pub(crate) stage: ConnectStage,
}

impl TransportFailure {
    /// A failure with the delivery *unknown*: the server may or may not have received the request.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self {
            delivery: Delivery::Unknown,
            status: None,
            retry_after: None,
            message: message.into(),
            hint: None,
            stage: ConnectStage::Open,
        }
    }
}

impl RequestError {
    /// The error for a request that was sent and whose deadline passed. Its delivery is *unknown*.
    pub(crate) fn timed_out(Expired { after, idle }: Expired) -> Self {
        Self::TimedOut {
            after,
            idle,
            delivery: Delivery::Unknown,
            stray: StrayOutput::None,
        }
    }

    /// Sets the time limit of a timeout. Other errors stay as they are.
    pub(crate) fn with_limit(mut self, limit: Duration) -> Self {
        if let Self::TimedOut { after, .. } = &mut self {
            *after = limit;
        }
        self
    }

    /// Sets the delivery of a timeout. Other errors stay as they are.
    pub(crate) fn with_delivery(mut self, known: Delivery) -> Self {
        if let Self::TimedOut { delivery, .. } = &mut self {
            *delivery = known;
        }
        self
    }

    /// Name of the field of [`Limits`](switchboard_wire::Limits) because of which the request was
    /// not sent. `None` for errors with another cause.
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::WriteQueueFull { .. } => Some("write_queue_bytes"),
            Self::MemoryBudgetExceeded { .. } => Some("memory_bytes"),
            Self::TooLong { .. } => Some("message_bytes"),
            _ => None,
        }
    }
}

fn timeout_message(after: Duration, idle: bool) -> String {
    let after = truncate_to_millis(after);
    if idle {
        format!("no activity for {after:?}")
    } else {
        format!("no response within {after:?}")
    }
}

/// Output of a server that answers no request, as far as it can explain a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrayOutput {
    /// None, or none that is known.
    #[default]
    None,
    /// Responses whose id matches no request.
    UnknownIds,
    /// Lines that are no message, or an invalid message without an id.
    NotMessages,
    /// The beginning of a line that has not ended.
    PartialLine,
}

impl StrayOutput {
    /// A note to append to a timeout message. Empty for [`StrayOutput::None`].
    #[doc(hidden)]
    pub fn note(self) -> &'static str {
        match self {
            Self::None => "",
            Self::UnknownIds => " (the server sent responses with unknown request ids)",
            Self::NotMessages => " (the server sent output that is not a JSON-RPC message)",
            Self::PartialLine => " (the server sent a message without a line end)",
        }
    }
}
