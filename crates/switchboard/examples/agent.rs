//! What an agent loop needs: tools of the servers and tools to look after them, and between two turns
//! whatever changed meanwhile.
//!
//! `cargo run --example agent`

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use switchboard::call::CallOrigin;
use switchboard::in_process::{LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, Tool};
use switchboard::permission::{Action, Rule};
use switchboard::registry::{Registry, ToolExecutor};
use switchboard::{CallContext, Host, Readiness};

/// A server in this process: every call finds one build more.
struct Builds(AtomicU64);

impl LocalServer for Builds {
    fn implementation(&self) -> Implementation {
        Implementation::new("builds", "1.0")
    }

    fn tools(&self) -> Vec<Tool> {
        let nothing = json!({"type": "object", "properties": {}});
        vec![Tool::new("status", Json::from(&nothing)).description("How the builds are doing")]
    }

    fn call_tool<'a>(
        &'a self,
        _: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let done = self.0.fetch_add(1, Ordering::Relaxed);
        let text = format!("builds done: {done}\nbuilds broken: 0");
        Box::pin(std::future::ready(Ok(CallToolResult::text(text))))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder()
        .in_process_server("ci", Builds(AtomicU64::new(0)))
        .rule(Rule::new(Action::Allow, "mcp__ci__status")?)
        .start()?;
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host.clone());
    registry.register_management_tools()?;
    for tool in registry.definitions() {
        println!("{}: {}", tool.name, tool.description);
    }

    // What a model would say.
    let wish: Value = json!({
        "type": "tool", "server": "ci", "toolName": "status", "intervalMs": 1000,
        "reason": "the user waits for the next build",
    });
    let context = CallContext::default().origin(CallOrigin::Model);
    let answer = registry.execute("SubscribePolling", wish, context).await;
    println!("\n{}\n", answer.to_text());

    // A loop that has a turn to take anyway drains what there is: `host.drain_watch_events()`.
    for _turn in 0..2 {
        if let Some(event) = host.next_watch_event().await {
            println!("{}\n", event.to_text());
        }
    }
    host.shutdown().await;
    Ok(())
}
