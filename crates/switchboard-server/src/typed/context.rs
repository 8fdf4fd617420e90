//! `ToolContext`: the cancellation, progress, `_meta` and shared state of one call.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_wire::ProgressReporter;
use switchboard_wire::mcp::Progress;
use tokio_util::sync::CancellationToken;

use super::error::{ToolError, ToolResult};
use super::server::{InProcessServer, ServerShared};

/// The call that a handler runs for: cancellation, progress, `_meta`, and the state that all
/// handlers of the server share.
///
/// Cheap to clone; can be moved into tasks and threads.
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

    /// Waits until the call is cancelled or timed out.
    ///
    /// An async handler is dropped then and need not check. Tasks that it has spawned, and blocking
    /// handlers, have to.
    pub async fn cancelled(&self) {
        self.call.cancellation.cancelled().await;
    }

    /// Whether the call was cancelled or timed out.
    pub fn is_cancelled(&self) -> bool {
        self.call.cancellation.is_cancelled()
    }

    /// The token that is cancelled with the call.
    pub fn cancellation_token(&self) -> &CancellationToken {
        &self.call.cancellation
    }

    /// Reports progress, which also resets the idle timeout of the call. Dropped silently if no
    /// client listens, or if the client reads too slowly.
    pub fn report(&self, progress: Progress) {
        self.call.reporter.report(progress);
    }

    /// Reports that `done` of `total` is done, with a message. See [`report`](Self::report).
    pub fn report_progress(&self, done: f64, total: f64, message: impl Into<String>) {
        self.report(Progress::new(done).of(total).message(message));
    }

    /// The server of the tool, for a tool that changes its own server. A handler that captures a
    /// clone of its server instead creates a reference cycle.
    pub fn server(&self) -> InProcessServer {
        InProcessServer::from_shared(&self.call.server)
    }

    /// The value of this type that was added with [`InProcessServer::state`].
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
