//! Requests the tool lists of in-process servers before the CLI starts.
//!
//! A manifest contains a server's responses to `initialize` and `tools/list`, so that the CLI does
//! not send these requests. If a server responds late or incompletely, it gets no manifest or one
//! without tools, and the CLI sends the missing requests. Invariant: a server without a manifest is
//! not an error.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::in_process::JsonRpcAdapter;
use tokio::time::timeout;

/// Maximum time that one server may take for its manifest. The start of the CLI waits for this.
const MANIFEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The protocol version in `initialize` requests; the CLI requests the same version.
const PROTOCOL_VERSION: &str = "2025-11-25";

/// Returns the manifest of a server. Returns `None` if the server fails or times out. The CLI does
/// not send `initialize` to a server with a manifest, so `adapter` must be the one that later
/// receives the messages of the CLI.
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
        // Leave out a list with further pages: the CLI then requests all pages.
        let has_more = tools
            .get("nextCursor")
            .is_some_and(|cursor| !cursor.is_null());
        if let (false, Some(members)) = (has_more, manifest.as_object_mut()) {
            members.insert("toolsListResult".to_owned(), tools);
        }
    }
    Some(manifest)
}

/// Sends a request and returns its result. The id is a string, so that it differs from the ids of
/// the CLI, which are numbers.
async fn request(adapter: &JsonRpcAdapter, method: &str, params: Value) -> Option<Value> {
    let id = format!("switchboard:{method}");
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let response = adapter.handle(&message.to_string()).await?;
    let mut response = response.to_value().ok()?;
    response.get_mut("result").map(Value::take)
}
