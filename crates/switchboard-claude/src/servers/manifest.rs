//! Asks in-process servers for their tools before the CLI starts.
//!
//! With a manifest, the CLI does not send `initialize` and `tools/list` to the server. A server
//! that responds late or incompletely gets no manifest, and the CLI sends these requests itself.
//! Invariant: a server without a manifest is not an error.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::in_process::JsonRpcAdapter;
use tokio::time::timeout;

/// How long a server may take. The start of the CLI waits for this.
const MANIFEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The protocol version that the CLI requests.
const PROTOCOL_VERSION: &str = "2025-11-25";

/// Returns the manifest of a server, unless it fails or times out. The adapter must be the one that
/// later receives the CLI's messages: the CLI skips `initialize` for a server with a manifest.
pub(super) async fn request_manifest(adapter: &JsonRpcAdapter) -> Option<Value> {
    timeout(MANIFEST_TIMEOUT, build(adapter))
        .await
        .ok()
        .flatten()
}

async fn build(adapter: &JsonRpcAdapter) -> Option<Value> {
    let client = json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
    let params =
        json!({"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client});
    let handshake = request(adapter, "initialize", params).await?;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    adapter.handle(&initialized.to_string()).await;
    let has_tools = handshake.pointer("/capabilities/tools").is_some();
    let mut manifest = json!({"initializeResult": handshake});
    if has_tools {
        let tools = request(adapter, "tools/list", json!({})).await?;
        // Omit an incomplete list: the CLI then requests all pages itself.
        let has_more = tools
            .get("nextCursor")
            .is_some_and(|cursor| !cursor.is_null());
        if let (false, Some(members)) = (has_more, manifest.as_object_mut()) {
            members.insert("toolsListResult".to_owned(), tools);
        }
    }
    Some(manifest)
}

/// Sends a request. Its id is a string, because the CLI uses numbers as ids.
async fn request(adapter: &JsonRpcAdapter, method: &str, params: Value) -> Option<Value> {
    let id = format!("switchboard:{method}");
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let response = adapter.handle(&message.to_string()).await?;
    let mut response = response.to_value().ok()?;
    response.get_mut("result").map(Value::take)
}
