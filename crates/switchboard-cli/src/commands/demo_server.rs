//! The server that the demo starts: this binary once more, as a small MCP server on stdin and stdout.
//!
//! Plain and blocking on purpose: it shares no code with the engine that talks to it.

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

/// Answers line by line until the client hangs up.
fn serve() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        if let Some(answer) = answer(&message) {
            writeln!(stdout, "{answer}")?;
            stdout.flush()?;
        }
    }
    Ok(())
}

/// `None`: it was a notification, which nobody answers.
fn answer(message: &Value) -> Option<Value> {
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
            "description": "Says hello to somebody",
            "inputSchema": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "Who to greet"}},
                "required": ["name"],
            },
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "pid",
            "description": "Tells which process the server is",
            "inputSchema": nothing,
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "delete_everything",
            "description": "Deletes everything (it would not, but who knows)",
            "inputSchema": nothing,
            "annotations": {"destructiveHint": true},
        },
    ])
}

fn call(params: &Value) -> Result<Value, (i64, String)> {
    let text = match params.get("name").and_then(Value::as_str) {
        Some("greet") => {
            let name = params.pointer("/arguments/name").and_then(Value::as_str);
            format!("Hello, {}!", name.unwrap_or("whoever you are"))
        }
        Some("pid") => std::process::id().to_string(),
        Some("delete_everything") => "everything is deleted (nothing is, really)".to_owned(),
        _ => return Err((INVALID_PARAMS, "unknown tool".to_owned())),
    };
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}
