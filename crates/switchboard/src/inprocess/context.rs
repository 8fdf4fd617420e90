//! What a handler may know of its call besides the arguments.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::error::{ToolError, ToolResult};
use super::server::{InProcessServer, Shared};
use crate::mcp::Progress;
use crate::transport::memory::ProgressReporter;

/// The call that a handler works for: whether it is still wanted, how far it has come, what came with
/// it, and what all handlers of the server share.
///
/// Cheap to clone, and can be taken along into tasks and threads.
#[derive(Clone)]
pub struct ToolContext {
    call: Arc<Known>,
}

struct Known {
    tool: Arc<str>,
    meta: Map<String, Value>,
    reporter: ProgressReporter,
    cancellation: CancellationToken,
    server: Arc<Shared>,
}

impl ToolContext {
    pub(super) fn new(
        tool: Arc<str>,
        meta: Map<String, Value>,
        reporter: ProgressReporter,
        server: Arc<Shared>,
    ) -> Self {
        let cancellation = CancellationToken::new();
        let call = Arc::new(Known {
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

    /// What the caller added to the call (`_meta`).
    pub fn meta(&self) -> &Map<String, Value> {
        &self.call.meta
    }

    /// Waits until nobody waits for the call any more: it was cancelled, or its time was up.
    ///
    /// An async handler is dropped then and has nothing to do for it. What it has started elsewhere,
    /// and handlers that block, have to look.
    pub async fn cancelled(&self) {
        self.call.cancellation.cancelled().await;
    }

    /// Whether nobody waits for the call any more.
    pub fn is_cancelled(&self) -> bool {
        self.call.cancellation.is_cancelled()
    }

    /// The same to hand on.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.call.cancellation
    }

    /// Says how far the call has come, which is a sign of life: a call that says nothing for long is
    /// given up. Dropped silently when nobody listens or listens too slowly.
    pub fn progress(&self, progress: Progress) {
        self.call.reporter.report(progress);
    }

    /// Says that so much of a total is done, and what is being done.
    pub fn report(&self, done: f64, total: f64, message: impl Into<String>) {
        self.progress(Progress::new(done).of(total).message(message));
    }

    /// The server that the tool belongs to, for a tool that changes what it offers. A handler that keeps
    /// a clone of its own server instead would keep it for ever.
    pub fn server(&self) -> InProcessServer {
        InProcessServer::of(&self.call.server)
    }

    /// What was given to the server by [`state`](super::InProcessServer::state), by its type.
    pub fn state<S: Send + Sync + 'static>(&self) -> ToolResult<Arc<S>> {
        self.call.server.state().ok_or_else(|| {
            ToolError::new(format!(
                "the server has no state of type {}: give it one by `InProcessServer::state`",
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
