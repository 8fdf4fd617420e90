//! The host side of an agent loop: list all tools for the model, execute a tool call, and take
//! watch events between two turns. The example needs no model, because it makes fixed tool calls.
//!
//! ```text
//! cargo run -p switchboard --example agent_loop
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use switchboard::call::CallOrigin;
use switchboard::in_process::{LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, ToolDefinition};
use switchboard::registry::{Registry, ToolExecutor};
use switchboard::{CallContext, Host, Readiness};

/// An in-process server with the tool `status`. Each call of the tool reports one more finished
/// build.
struct BuildServer {
    finished_builds: AtomicU64,
}

impl LocalServer for BuildServer {
    fn implementation(&self) -> Implementation {
        Implementation::new("builds", "1.0")
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let no_arguments = json!({"type": "object", "properties": {}});
        vec![
            ToolDefinition::new("status", Json::from(&no_arguments))
                .description("Shows the state of the builds"),
        ]
    }

    fn call_tool<'a>(
        &'a self,
        _: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let finished = self.finished_builds.fetch_add(1, Ordering::Relaxed);
        let text = format!("finished builds: {finished}\nfailed builds: 0");
        Box::pin(std::future::ready(Ok(CallToolResult::text(text))))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = BuildServer {
        finished_builds: AtomicU64::new(0),
    };
    let host = Host::builder()
        .in_process_server("ci", server)
        .allow("mcp__ci__status")
        .start()?;
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host.clone());
    registry.register_management_tools()?;
    for tool in registry.definitions() {
        println!("{}: {}", tool.name, tool.description);
    }

    // The model asks to be notified when the result of `status` changes.
    let input: Value = json!({
        "type": "tool", "server": "ci", "toolName": "status", "intervalMs": 1000,
        "reason": "the user waits for the next build",
    });
    let context = CallContext::default().origin(CallOrigin::Model);
    let output = registry.execute("SubscribePolling", input, context).await;
    println!("\n{}\n", output.to_text());

    // `host.drain_watch_events()` takes the pending events without waiting.
    for _turn in 0..2 {
        if let Some(event) = host.next_watch_event().await {
            println!("{}\n", event.to_text());
        }
    }
    host.shutdown().await;
    Ok(())
}
