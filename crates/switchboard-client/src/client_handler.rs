//! The trait through which the host answers the requests of a server.
//!
//! A session parses and validates the requests of its server, limits the rate of elicitation and
//! sampling requests, and passes the requests to a [`ClientHandler`]. The handler also receives the
//! server's log messages.

use serde_json::Value;

use crate::elicitation::{ElicitResponse, Elicitation};
use crate::roots::Root;
use crate::sampling::SamplingRequest;
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::ClientCapabilities;
use switchboard_wire::mcp::{ErrorObject, Json};

/// Answers the requests of one server and receives its log messages.
pub trait ClientHandler: Send + Sync + 'static {
    /// The client capabilities that the session announces to the server. The session refuses
    /// requests that need any other capability.
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers `elicitation/create`. Not called again before the returned future has completed or
    /// was dropped.
    fn elicit<'a>(&'a self, request: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse>;

    /// Answers `sampling/createMessage`. Not called again before the returned future has completed
    /// or was dropped.
    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>>;

    /// Answers `roots/list` with the directories that the server may work in.
    fn roots(&self) -> BoxFuture<'_, Vec<Root>>;

    /// Whether [`on_log`](Self::on_log) uses log messages. If not, the session parses log messages
    /// only if `tracing` is enabled.
    fn wants_logs(&self) -> bool;

    /// Receives a log message. Messages beyond the session's rate limit are dropped before this
    /// call.
    fn on_log(&self, message: LogMessage);

    /// Reports that the session dropped `count` log messages within about a second, because the
    /// server exceeded the rate limit.
    fn on_logs_dropped(&self, count: u64);

    /// Reports that the server sent more than `per_minute` requests with this method within a
    /// minute. Called only for the first of several rejected requests in a row.
    fn on_requests_limited(&self, method: &'static str, per_minute: usize);
}

/// A `notifications/message` of a server. Its content is untrusted.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMessage {
    /// `debug`, `info`, …, as the server sent it.
    pub level: String,
    /// The name of the part of the server that wrote the message, if the server sent one.
    pub logger: Option<String>,
    /// The logged data: any JSON value.
    pub data: Option<Json>,
}
