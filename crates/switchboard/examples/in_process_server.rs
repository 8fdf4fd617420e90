//! Defines a server with one tool as a Rust function, runs it in the host, and calls the tool.
//!
//! ```text
//! cargo run -p switchboard --example in_process_server
//! ```

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard::{Host, InProcessServer, Readiness};

#[derive(Deserialize, JsonSchema)]
struct Summands {
    a: f64,
    b: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calculator = InProcessServer::new("calculator", "1.0").tool(
        "add",
        "Adds two numbers",
        async |Summands { a, b }: Summands| Ok(a + b),
    );
    let host = Host::builder()
        .in_process_server("calculator", calculator)
        .allow("mcp__calculator")
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
