//! rmcp's client and server in one process, over a channel of typed messages without JSON.

use futures::channel::mpsc;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};

use crate::job::{Figures, Work};

/// Capacity of a channel: more messages than are ever in flight.
const MESSAGES: usize = 16;

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let message = arguments.get("message").and_then(|it| it.as_str());
        let text = ContentBlock::text(message.unwrap_or_default());
        Ok(CallToolResult::success(vec![text]).into())
    }
}

pub async fn calls(calls: usize) -> Figures {
    let (to_server, at_server) = mpsc::channel(MESSAGES);
    let (to_client, at_client) = mpsc::channel(MESSAGES);
    let server = tokio::spawn(async move {
        let server = Echo
            .serve((to_client, at_server))
            .await
            .expect("the session starts");
        server.waiting().await.expect("the task does not panic");
    });
    let client = ().serve((to_server, at_client)).await.expect("the session starts");
    let figures = super::measure_calls(client, &Work::in_process(calls)).await;
    server.abort();
    figures
}
