//! Calls of a server in the host's own process.

use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, Tool};
use switchboard::{BoxFuture, LocalCall, LocalServer};

use crate::job::{Figures, Work};

struct Echo;

impl LocalServer for Echo {
    fn implementation(&self) -> Implementation {
        Implementation::new("echo", "1")
    }

    fn tools(&self) -> Vec<Tool> {
        let schema = serde_json::json!({
            "type": "object",
            "properties": { "message": { "type": "string" } },
            "required": ["message"],
        });
        vec![Tool::new("echo", Json::from(&schema))]
    }

    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let message = call.arguments.get("message").and_then(|it| it.as_str());
        let answer = CallToolResult::text(message.unwrap_or_default());
        Box::pin(std::future::ready(Ok(answer)))
    }
}

pub async fn calls(calls: usize) -> Figures {
    let host = super::started(super::host().local_server("neutral", Echo)).await;
    super::measured(host, &Work::local(calls)).await
}
