//! A host inside a program: one server in this process, one rule, one call.
//!
//! `cargo run --example embed`

use serde_json::json;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, Tool};
use switchboard::permission::{Action, Rule};
use switchboard::{BoxFuture, Host, LocalCall, LocalServer, Readiness};

/// A server that lives in this process.
struct Calculator;

impl LocalServer for Calculator {
    fn implementation(&self) -> Implementation {
        Implementation::new("calculator", "1.0")
    }

    fn tools(&self) -> Vec<Tool> {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
            "required": ["a", "b"],
        });
        vec![Tool::new("add", Json::from(&schema)).description("Adds two numbers")]
    }

    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let number = |name: &str| call.arguments.get(name)?.as_f64();
        let answer = match (number("a"), number("b")) {
            (Some(a), Some(b)) => Ok(CallToolResult::text((a + b).to_string())),
            _ => Err(ErrorObject::new(
                ErrorObject::INVALID_PARAMS,
                "a and b are numbers",
            )),
        };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder()
        .local_server("calculator", Calculator)
        .rule(Rule::new(Action::Allow, "mcp__calculator")?)
        .start()?;
    host.wait_for(Readiness::All).await;

    for tool in host.tools() {
        println!("{}", tool.wire_name);
    }
    let output = host
        .call("mcp__calculator__add", json!({"a": 15, "b": 27}))
        .await?;
    println!("15 + 27 = {}", output.to_text());

    host.shutdown().await;
    Ok(())
}
