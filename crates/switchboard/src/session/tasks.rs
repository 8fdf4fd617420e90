//! Calls that a server carries out as tasks: in its own time, and asked for again and again.
//!
//! A modern server decides by itself to answer a call with a task (extension
//! `io.modelcontextprotocol/tasks`), and says all there is to know of it in answer to `tasks/get`.
//! One of 2025-11-25 is asked for a task, hands the result over by `tasks/result`, and asks for
//! input by requests of its own while that is open. Either way the task belongs to the server and
//! not to the session: if the session is lost, the next one is asked for it.
//!
//! Invariant: a call that became a task is never *not sent*, so it is never sent again; and a task
//! that nobody waits for any more is cancelled, if the server can still be told.

mod cancel;
mod poll;

use tokio::time::Instant;

use super::input_required::invalid_response;
use super::{RequestError, Session, ToolRequest};
use crate::interact::BoxFuture;
use crate::mcp::{CallToolResult, Era};
use crate::wire::decode::{self, Task};
use crate::wire::{Answer, Problem};
use poll::TaskPoller;

/// What is known of a call beyond a session: what it is for, and to whom it goes.
pub(crate) trait CallTarget: std::fmt::Debug + Sync {
    /// The raw name of the tool.
    fn tool(&self) -> &str;

    /// Whether it has to be a task, with servers that are to be asked for one.
    fn requires_task(&self) -> bool;

    /// The session that follows one that was lost, if it comes about before `until`.
    fn next_session<'a>(
        &'a self,
        of: &'a Session,
        until: Instant,
    ) -> BoxFuture<'a, Option<Session>>;
}

/// The task that a server of 2025-11-25 made of a call that had to be one, if it did.
pub(super) fn created_task(
    session: &Session,
    request: &ToolRequest<'_>,
    answer: &Answer,
) -> Option<Result<Box<Task>, Problem>> {
    session.peer()?.task_ttl(request)?;
    decode::created_task(answer)
        .map(|task| task.map(Box::new))
        .transpose()
}

/// Follows a task to its end.
pub(super) fn poll_to_end<'a>(
    session: &'a Session,
    request: &'a ToolRequest<'a>,
    task: Box<Task>,
) -> BoxFuture<'a, Result<CallToolResult, RequestError>> {
    Box::pin(async move {
        if !is_modern(session) && !request.target.requires_task() {
            return Err(invalid_response(
                "it is a task, which its version knows nothing of",
            ));
        }
        TaskPoller::new(session, request, *task).run().await
    })
}

fn is_modern(session: &Session) -> bool {
    let handshake = session.handshake();
    handshake.is_some_and(|handshake| handshake.version.era() == Era::Modern)
}
