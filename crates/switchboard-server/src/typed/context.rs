//! `ToolContext`: what a handler can learn about its call, and what it can report during the call.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_wire::ProgressReporter;
use switchboard_wire::mcp::Progress;
use tokio_util::sync::CancellationToken;

use super::error::{ToolError, ToolResult};
use super::server::{InProcessServer, ServerShared};

/// Gives a handler access to its call: cancellation, progress, `_meta`, and the state that all
/// handlers of the server share.
///
/// Cheap to clone. A handler can move clones into tasks and threads.
#[derive(Clone)]
pub struct ToolContext {
    call: Arc<CallState>,
}

struct CallState {
    tool: Arc<str>,
    meta: Map<String, Value>,
    reporter: ProgressReporter,
    cancellation: CancellationToken,
    server: Arc<ServerShared>,
}

impl ToolContext {
    pub(super) fn new(
        tool: Arc<str>,
        meta: Map<String, Value>,
        reporter: ProgressReporter,
        server: Arc<ServerShared>,
    ) -> Self {
        let cancellation = CancellationToken::new();
        let call = Arc::new(CallState {
            tool,
            meta,
            reporter,
            cancellation,
            server,
        });
        Self { call }
    }

    /// The name of the tool that was called.
    pub fn tool(&self) -> &str {
        &self.call.tool
    }

    /// The `_meta` object of the call.
    pub fn meta(&self) -> &Map<String, Value> {
        &self.call.meta
    }

    /// Waits until the call is cancelled or times out, or its handler panics.
    ///
    /// The future of an async handler is dropped at that moment, so the handler itself need not
    /// check. Nothing stops a blocking handler or a task that a handler spawned, so these must
    /// check.
    pub async fn cancelled(&self) {
        self.call.cancellation.cancelled().await;
    }

    /// Whether the call was cancelled or has timed out, or its handler has panicked.
    pub fn is_cancelled(&self) -> bool {
        self.call.cancellation.is_cancelled()
    }

    /// A token that is cancelled when the call is cancelled or times out, or its handler panics.
    pub fn cancellation_token(&self) -> &CancellationToken {
        &self.call.cancellation
    }

    /// Reports progress to the client, which also restarts the idle timeout of the call. The
    /// progress is dropped silently if the client did not ask for it or reads too slowly.
    pub fn report(&self, progress: Progress) {
        self.call.reporter.report(progress);
    }

    /// Reports that `done` of `total` units are done, with a message for the user. See
    /// [`report`](Self::report).
    pub fn report_progress(&self, done: f64, total: f64, message: impl Into<String>) {
        self.report(Progress::new(done).of(total).message(message));
    }

    /// The server to which the tool belongs, for tools that change their own server. A handler must
    /// not capture a clone of its server instead: that is a reference cycle, and the server would
    /// never be freed.
    pub fn server(&self) -> InProcessServer {
        InProcessServer::from_shared(&self.call.server)
    }

    /// The value of type `S` that was added with [`InProcessServer::state`]. Fails if there is
    /// none.
    pub fn state<S: Send + Sync + 'static>(&self) -> ToolResult<Arc<S>> {
        self.call.server.state().ok_or_else(|| {
            ToolError::new(format!(
                "the server has no state of type {}; add it with `InProcessServer::state`",
                type_name::<S>()
            ))
        })
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("tool", &self.tool())
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
