//! The stdio MCP server of the demo, run by `switchboard __demo-server` in a child process.
//!
//! Uses blocking I/O and no code of the `switchboard` library, because the demo shows a connection
//! to an independent server.

use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

pub(crate) fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Answers one message per line until stdin is closed.
fn serve() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        if let Some(response) = respond(&message) {
            writeln!(stdout, "{response}")?;
            stdout.flush()?;
        }
    }
    Ok(())
}

/// Returns the response to a request, and `None` for a notification.
fn respond(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let method = message.get("method")?.as_str()?;
    let params = message.get("params").unwrap_or(&Value::Null);
    Some(match handle(method, params) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    })
}

fn handle(method: &str, params: &Value) -> Result<Value, (i64, String)> {
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "switchboard-demo", "version": env!("CARGO_PKG_VERSION")},
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools()})),
        "tools/call" => call(params),
        _ => Err((METHOD_NOT_FOUND, format!("method not found: {method}"))),
    }
}

fn tools() -> Value {
    let nothing = json!({"type": "object", "properties": {}});
    json!([
        {
            "name": "greet",
            "description": "Greets a person by name",
            "inputSchema": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "Who to greet"}},
                "required": ["name"],
            },
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "pid",
            "description": "Returns the server's process id",
            "inputSchema": nothing,
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "delete_everything",
            "description": "Pretends to delete everything (used to show a deny rule)",
            "inputSchema": nothing,
            "annotations": {"destructiveHint": true},
        },
    ])
}

fn call(params: &Value) -> Result<Value, (i64, String)> {
    let text = match params.get("name").and_then(Value::as_str) {
        Some("greet") => {
            let name = params.pointer("/arguments/name").and_then(Value::as_str);
            format!("Hello, {}!", name.unwrap_or("stranger"))
        }
        Some("pid") => std::process::id().to_string(),
        Some("delete_everything") => "nothing was deleted".to_owned(),
        _ => return Err((INVALID_PARAMS, "unknown tool".to_owned())),
    };
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}
