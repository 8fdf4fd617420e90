//! The error of a query.

use std::time::Duration;

use switchboard_wire::InvalidMessage;
use switchboard_wire::mcp::ErrorObject;

use crate::id::ServerName;
use crate::permission::Denial;
use crate::status::Unavailable;

/// Why a query failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The host has no server of this name.
    #[error("no server named {0:?}")]
    UnknownServer(String),
    /// The server is not connected, so the query was not sent.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// A rule denies all tools of the server. Such a rule also denies queries.
    #[error("access to server {server} was denied: {denial}")]
    Denied {
        /// The name of the server.
        server: ServerName,
        /// The rule that denies the server.
        denial: Denial,
    },
    /// The [context](crate::CallContext::servers) of the request does not include the server.
    #[error("this request may not use server {0}")]
    ServerNotSelected(ServerName),
    /// The server does not support this kind of query.
    #[error("server {server} does not support {what}")]
    UnsupportedCapability {
        /// The name of the server.
        server: ServerName,
        /// The missing capability: `resources` or `prompts`.
        what: &'static str,
    },
    /// The URI is empty, too long, or contains control characters.
    #[error("{0}")]
    InvalidUri(String),
    /// This method cannot be sent as a raw request.
    #[error("`{method}` cannot be sent as a raw request: {reason}")]
    NotRaw {
        /// The method.
        method: String,
        /// What to do instead.
        reason: &'static str,
    },
    /// The server responded with a JSON-RPC error.
    #[error("server {server} returned an error: {error}")]
    ErrorResponse {
        /// The name of the server.
        server: ServerName,
        /// The error object in the response.
        error: ErrorObject,
    },
    /// The response exceeds a limit or violates the protocol.
    #[error("invalid response from server {server}: {problem}")]
    InvalidResponse {
        /// The name of the server.
        server: ServerName,
        /// What is wrong with the response.
        problem: InvalidMessage,
    },
    /// The server did not respond in time.
    #[error("server {server} did not respond within {after:?}")]
    TimedOut {
        /// The name of the server.
        server: ServerName,
        /// The time limit of the query.
        after: Duration,
    },
    /// The connection was lost, the request could not be sent, or the server responded with an HTTP
    /// error status.
    #[error("request to server {server} failed: {reason}")]
    ConnectionLost {
        /// The name of the server.
        server: ServerName,
        /// The text of the connection error.
        reason: String,
    },
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

impl QueryError {
    /// Error codes of servers for a resource that does not exist. Servers also use the second code
    /// for other invalid parameters.
    const NOT_FOUND: [i64; 2] = [-32002, ErrorObject::INVALID_PARAMS];

    /// Whether the server responded with an error code for items that do not exist. Such a code can
    /// also mean that another parameter is invalid.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::ErrorResponse { error, .. } if Self::NOT_FOUND.contains(&error.code))
    }
}
