//! Starts a host with two servers, permission rules and a permission callback, and calls one tool.
//!
//! The server `time` needs `uvx`. The server `docs` does not exist: its status shows a failed
//! connection.
//!
//! ```text
//! cargo run -p switchboard --example hello
//! ```

use serde_json::json;
use switchboard::permission::PermissionResponse;
use switchboard::{Host, Readiness};

#[expect(
    clippy::disallowed_methods,
    reason = "the embedding program passes the environment to the host and owns its tasks"
)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder()
        // Child processes get only PATH, HOME and a few more of these variables.
        .environment(std::env::vars())
        .stdio("time", "uvx", ["mcp-server-time"])
        .http("docs", "https://docs.example.com/mcp")
        .allow("mcp__time__get_*")
        .deny("mcp__*__delete_*")
        // This callback runs when no rule allows or denies a call.
        .can_use_tool(|request| async move {
            eprintln!("allowed {} {:?}", request.wire_name, request.arguments);
            PermissionResponse::Allow
        })
        .start()?;

    let mut events = host.events();
    let event_log = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            eprintln!("{event:?}");
        }
    });

    host.wait_for(Readiness::All).await;
    for server in host.status() {
        println!("{} {}", server.name, server.status);
    }
    let arguments = json!({"timezone": "Europe/Berlin"});
    match host.call("mcp__time__get_current_time", arguments).await {
        Ok(output) => println!("{}", output.to_text()),
        Err(error) => println!("{error}"),
    }

    // `shutdown` also ends the event stream, so `event_log` finishes.
    host.shutdown().await;
    event_log.await?;
    Ok(())
}
