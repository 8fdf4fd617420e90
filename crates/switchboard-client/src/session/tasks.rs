//! Calls that a server runs as tasks, and that the client polls until they end.
//!
//! A modern server may respond to any call with a task (extension `io.modelcontextprotocol/tasks`).
//! Its responses to `tasks/get` hold the status, the input requests and the result of the task.
//!
//! A server of 2025-11-25 creates a task only if the client requests one. It returns the result in
//! the response to `tasks/result`. While `tasks/result` is in flight, the server may send requests
//! of its own to ask for input.
//!
//! In both eras a task belongs to the server and not to the session: after a reconnect, the task is
//! polled on the new session.
//!
//! Invariant: a call that became a task never fails as *not sent*, so the call is never sent again.
//! When the caller stops waiting, the client cancels the task if the server is still connected and
//! supports `tasks/cancel`.

mod cancel;
mod poll;

use tokio::time::Instant;

use super::input_required::invalid_response;
use super::{RequestError, Session, ToolRequest};
use poll::TaskPoller;
use switchboard_wire::BoxFuture;
use switchboard_wire::decode;
use switchboard_wire::decode::Task;
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult};
use switchboard_wire::mcp::{CallToolResult, Era};

/// The tool that is called. Also waits for the new session of its server after a reconnect.
pub trait CallTarget: std::fmt::Debug + Sync {
    /// The name under which the server lists the tool.
    fn tool(&self) -> &str;

    /// Whether the tool can only be called as a task (2025-11-25).
    fn requires_task(&self) -> bool;

    /// Waits until the server has a new session after `lost`. Returns `None` at `until`, or if
    /// there will be no new session.
    fn next_session<'a>(
        &'a self,
        lost: &'a Session,
        until: Instant,
    ) -> BoxFuture<'a, Option<Session>>;
}

/// Decodes the task that a server of 2025-11-25 created for a call. Returns `None` if the call did
/// not request a task, or if the result is not a task.
pub(super) fn created_task(
    session: &Session,
    request: &ToolRequest<'_>,
    result: &RawResult,
) -> Option<Result<Box<Task>, InvalidMessage>> {
    session.peer()?.task_ttl(request)?;
    decode::created_task(result)
        .map(|task| task.map(Box::new))
        .transpose()
}

/// Polls a task until it ends, and returns the result of the call.
pub(super) fn poll_across_reconnects<'a>(
    session: &'a Session,
    request: &'a ToolRequest<'a>,
    task: Box<Task>,
) -> BoxFuture<'a, Result<CallToolResult, RequestError>> {
    Box::pin(async move {
        if !is_modern(session) && !request.target.requires_task() {
            return Err(invalid_response(
                "it is a task, which its protocol version does not have",
            ));
        }
        TaskPoller::new(session, request, *task).run().await
    })
}

fn is_modern(session: &Session) -> bool {
    let handshake = session.handshake();
    handshake.is_some_and(|handshake| handshake.version.era() == Era::Modern)
}
