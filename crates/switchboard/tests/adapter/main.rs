//! Servers of this program, spoken to in the protocol: one message in, one out.

#![allow(unreachable_pub, reason = "modules of one test")]
#![allow(
    clippy::disallowed_methods,
    reason = "tasks of a test end with its runtime"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a message that is made on the spot is handed over"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
)]

mod changes;
mod local;
mod many;
mod server;
mod stream;

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::inprocess::Adapter;
use switchboard::mcp::Json;
use tokio::sync::mpsc;

const LIMIT: Duration = Duration::from_secs(60);

/// The answer to a message.
async fn answer(adapter: &Adapter, message: &Value) -> Option<Value> {
    let answer = adapter.handle(&message.to_string()).await;
    answer.map(|answer| answer.to_value().unwrap())
}

/// What a request is answered with, and that its id is the one that was sent.
async fn ask(adapter: &Adapter, id: u64, method: &str, params: Value) -> Value {
    let mut answer = answer(adapter, &request(id, method, params)).await.unwrap();
    assert_eq!(answer["id"], json!(id));
    match answer.get_mut("result") {
        Some(result) => result.take(),
        None => answer["error"].take(),
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
}

fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

async fn heard(receiver: &mut mpsc::Receiver<Json>) -> Value {
    receiver.recv().await.unwrap().to_value().unwrap()
}
