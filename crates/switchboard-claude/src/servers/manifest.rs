//! What the CLI would ask a server first, asked beforehand.
//!
//! A manifest saves the CLI its round trips; without one it asks for itself. So whatever is not quite
//! right is left out, and nothing here fails.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::inprocess::Adapter;
use tokio::time::timeout;

/// Asking a server may take no longer than this: the CLI is about to be started.
const PATIENCE: Duration = Duration::from_secs(2);

/// The version that the CLI asks for.
const VERSION: &str = "2025-11-25";

/// A server's manifest, if it says quickly what belongs into it. The connection that it is asked over is
/// the one that the CLI's first call goes to.
pub(super) async fn of(adapter: &Adapter) -> Option<Value> {
    timeout(PATIENCE, ask(adapter)).await.ok().flatten()
}

async fn ask(adapter: &Adapter) -> Option<Value> {
    let client = json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
    let hello = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client});
    let hello = request(adapter, "initialize", hello).await?;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    adapter.handle(&initialized.to_string()).await;
    let has_tools = hello.pointer("/capabilities/tools").is_some();
    let mut manifest = json!({"initializeResult": hello});
    if has_tools {
        let tools = request(adapter, "tools/list", json!({})).await?;
        // A first page is not all: the CLI asks for itself.
        let has_more = tools
            .get("nextCursor")
            .is_some_and(|cursor| !cursor.is_null());
        if let (false, Some(members)) = (has_more, manifest.as_object_mut()) {
            members.insert("toolsListResult".to_owned(), tools);
        }
    }
    Some(manifest)
}

/// The CLI counts its requests: an id in words is none of them.
async fn request(adapter: &Adapter, method: &str, params: Value) -> Option<Value> {
    let id = format!("switchboard:{method}");
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let answer = adapter.handle(&message.to_string()).await?;
    let mut answer = answer.to_value().ok()?;
    answer.get_mut("result").map(Value::take)
}
