//! Servers that live in this process.
//!
//! Minimal: tools only, described and called by hand. Typed servers come on top of this.

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::interact::BoxFuture;
use crate::mcp::{CallToolResult, ErrorObject, Implementation, Progress, Tool};
use crate::session::{Life, ToolRequest};

/// A server in this process. Its calls take the same way as any other server's: catalog, schema,
/// permission, permits, content; only the wire is left out.
pub trait LocalServer: Send + Sync + 'static {
    /// Its name and version.
    fn implementation(&self) -> Implementation;

    /// How it wishes to be used.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Its tools.
    fn tools(&self) -> Vec<Tool>;

    /// Runs one of them. Arguments fit the tool's schema when they get here. The future is dropped
    /// when the call is cancelled; a panic in it fails the one call.
    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>>;
}

/// One call of a tool in this process.
#[derive(Debug)]
#[non_exhaustive]
pub struct LocalCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Map<String, Value>,
    progress: Option<mpsc::Sender<Progress>>,
    life: &'a Life,
}

impl<'a> LocalCall<'a> {
    pub(crate) fn new(request: &ToolRequest<'a>, life: &'a Life) -> Self {
        Self {
            tool: request.errand.tool(),
            arguments: request.arguments,
            progress: request.progress.clone(),
            life,
        }
    }

    /// Says how far the call has come, which is a sign of life. Dropped silently when nobody listens
    /// or listens too slowly.
    pub fn report(&self, progress: Progress) {
        self.life.touch();
        if let Some(listener) = &self.progress {
            let _ = listener.try_send(progress);
        }
    }
}
