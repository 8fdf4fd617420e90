//! `JsonRpcAdapter`: in-process servers as JSON-RPC endpoints.

#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(
    clippy::disallowed_methods,
    reason = "tasks of a test end with its runtime"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "messages are built in the call"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod concurrency;
mod dispatch;
mod fixture_server;
mod notifications;
mod stream;

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_server::JsonRpcAdapter;
use switchboard_wire::mcp::Json;
use tokio::sync::mpsc;

/// Time limit of each request to the adapter.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a message to the adapter and returns the response, if there is one.
async fn respond(adapter: &JsonRpcAdapter, message: &Value) -> Option<Value> {
    let response = adapter.handle(&message.to_string()).await;
    response.map(|response| response.to_value().unwrap())
}

/// Sends a request and returns the `result` of the response, or its `error`. Checks the id of the
/// response.
async fn send_request(adapter: &JsonRpcAdapter, id: u64, method: &str, params: Value) -> Value {
    let mut response = respond(adapter, &request(id, method, params))
        .await
        .unwrap();
    assert_eq!(response["id"], json!(id));
    match response.get_mut("result") {
        Some(result) => result.take(),
        None => response["error"].take(),
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call_request(id: u64, tool: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
}

fn cancel_notification(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// Waits for the next unsolicited message of the server.
async fn next_message(receiver: &mut mpsc::Receiver<Json>) -> Value {
    receiver.recv().await.unwrap().to_value().unwrap()
}
