//! The trait that answers the requests of a server.
//!
//! A session parses, validates and rate limits the requests of its server, then passes them to a
//! [`ClientHandler`]. The handler also receives the server's log messages.

use serde_json::Value;

use crate::elicitation::{ElicitResponse, Elicitation};
use crate::roots::Root;
use crate::sampling::SamplingRequest;
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::ClientCapabilities;
use switchboard_wire::mcp::{ErrorObject, Json};

/// Answers the requests of one server and receives its log messages.
pub trait ClientHandler: Send + Sync + 'static {
    /// The capabilities announced to the server. Requests for any other are refused.
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers `elicitation/create`. A server has at most one such request open.
    fn elicit<'a>(&'a self, request: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse>;

    /// Answers `sampling/createMessage`. A server has at most one such request open.
    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>>;

    /// Answers `roots/list`.
    fn roots(&self) -> BoxFuture<'_, Vec<Root>>;

    /// Whether [`on_log`](Self::on_log) does anything. Log messages are not parsed otherwise.
    fn wants_logs(&self) -> bool;

    /// Receives a log message, within the rate limit.
    fn on_log(&self, message: LogMessage);

    /// Reports how many log messages were dropped within a second.
    fn on_logs_dropped(&self, count: u64);

    /// Reports that the server sent more requests of this method per minute than allowed. Called once
    /// per series of rejected requests.
    fn on_requests_limited(&self, method: &'static str, per_minute: usize);
}

/// A `notifications/message` of a server. Its content is untrusted.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMessage {
    /// `debug`, `info`, …, as the server sent it.
    pub level: String,
    /// The part of the server that logs.
    pub logger: Option<String>,
    /// The message: any JSON value.
    pub data: Option<Json>,
}
