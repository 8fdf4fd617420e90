//! A session with a server that lives in this process: no text in between, no handshake.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::life::Life;
use super::{Delivery, RequestError, ToolRequest};
use crate::mcp::{CallToolResult, ErrorObject, ProtocolVersion, ServerHello, Tool};
use crate::transport::memory::{LocalCall, LocalServer};
use crate::wire::decode::Page;
use std::sync::Arc;

pub(crate) struct LocalSession {
    server: Arc<dyn LocalServer>,
    hello: ServerHello,
    life: Arc<Life>,
}

impl std::fmt::Debug for LocalSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalSession")
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}

impl LocalSession {
    pub(crate) fn open(server: Arc<dyn LocalServer>) -> Self {
        let hello = ServerHello {
            version: ProtocolVersion::LATEST_MODERN,
            server_info: Some(server.implementation()),
            capabilities: server.capabilities(),
            instructions: server.instructions(),
        };
        Self {
            server,
            hello,
            life: Arc::new(Life::new()),
        }
    }

    pub(super) fn hello(&self) -> &ServerHello {
        &self.hello
    }

    pub(super) fn tools(&self) -> Page<Tool> {
        Page::only(self.server.tools())
    }

    pub(super) async fn call_tool(
        &self,
        request: &ToolRequest<'_>,
    ) -> Result<CallToolResult, RequestError> {
        let wait = request.patience.start(&self.life);
        let call = LocalCall::new(request, &self.life);
        let work = AssertUnwindSafe(async { self.server.call(call).await }).catch_unwind();
        tokio::select! {
            biased;
            outcome = work => match outcome {
                Ok(answer) => answer.map_err(RequestError::Refused),
                Err(_) => Err(RequestError::Refused(ErrorObject::new(
                    ErrorObject::INTERNAL,
                    format!("the tool {} panicked", request.errand.tool()),
                ))),
            },
            expired = wait.run_out(&self.life) => Err(RequestError::TimedOut {
                after: expired.after,
                idle: expired.idle,
                delivery: Delivery::Unknown,
                misaddressed: false,
            }),
        }
    }
}
