//! The messages that a well-behaved CLI sends, reduced to the members that a host needs.

use serde_json::{Map, Value, json};

pub(super) const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// Returns the payload of the default response to a control request; an error if the subtype is
/// unknown.
pub(super) fn default_response(request: &Value) -> Result<Value, String> {
    let subtype = request.get("subtype").and_then(Value::as_str);
    let field = |name: &str| request.get(name).cloned().unwrap_or_default();
    Ok(match subtype.unwrap_or_default() {
        "initialize" => initialized(request),
        "interrupt" => json!({"still_queued": []}),
        "set_permission_mode" => json!({"mode": field("mode")}),
        "set_model" => json!({"model": field("model")}),
        "mcp_status" => json!({"mcpServers": []}),
        "mcp_set_servers" => {
            json!({"added": keys(&field("servers")), "removed": [], "errors": {}})
        }
        "mcp_call" => json!({"content": [{"type": "text", "text": "called"}]}),
        "mcp_read_resource" => json!({"contents": []}),
        "mcp_toggle" | "mcp_reconnect" | "mcp_message" => Value::Null,
        other => return Err(format!("Unsupported control request subtype: {other}")),
    })
}

fn initialized(request: &Value) -> Value {
    let manifests = keys(request.get("sdkMcpServerManifests").unwrap_or(&Value::Null));
    let parked: Map<String, Value> = manifests
        .into_iter()
        .map(|name| (name, "parked".into()))
        .collect();
    json!({
        "commands": [], "agents": [], "models": [], "output_style": "default",
        "claude_code_version": "0.0.0", "pid": std::process::id(), "session_state": "idle",
        "current_permission_mode": "default", "sdk_mcp_manifests_parked": parked,
    })
}

fn keys(object: &Value) -> Vec<String> {
    let object = object.as_object();
    object.map_or_else(Vec::new, |object| object.keys().cloned().collect())
}

/// A message with the session state. Hosts do not forward it to the application.
pub(super) fn state(state: &str) -> Value {
    json!({
        "type": "system", "subtype": "session_state_changed", "state": state,
        "sdk_host_only": true, "session_id": SESSION,
    })
}

pub(super) fn init() -> Value {
    json!({
        "type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/", "tools": [],
        "mcp_servers": [], "model": "fake-model", "permissionMode": "default",
        "claude_code_version": "0.0.0",
    })
}

pub(super) fn assistant(text: &str) -> Value {
    json!({
        "type": "assistant", "session_id": SESSION, "parent_tool_use_id": null,
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "fake-model",
            "content": [{"type": "text", "text": text}], "stop_reason": null,
        },
    })
}

pub(super) fn result(text: &str) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "result": text,
        "session_id": SESSION, "num_turns": 1, "duration_ms": 5, "duration_api_ms": 3,
        "total_cost_usd": 0.5, "usage": {"input_tokens": 11, "output_tokens": 7},
    })
}

pub(super) fn request(id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

pub(super) fn cancel(id: &str) -> Value {
    json!({"type": "control_cancel_request", "request_id": id})
}

/// The response to a control request of the host. If the payload is null, the response has none.
pub(super) fn response(request: &Value, outcome: Result<Value, String>) -> Value {
    let id = request.get("request_id").cloned().unwrap_or_default();
    let response = match outcome {
        Ok(Value::Null) => json!({"subtype": "success", "request_id": id}),
        Ok(payload) => json!({"subtype": "success", "request_id": id, "response": payload}),
        Err(error) => json!({"subtype": "error", "request_id": id, "error": error}),
    };
    json!({"type": "control_response", "response": response})
}

/// The control request for one tool call of [`ConcurrentCalls`](super::FakeStep::ConcurrentCalls).
pub(super) fn call(server: &str, tool: &str, number: u64) -> Value {
    json!({
        "subtype": "mcp_message", "server_name": server,
        "message": {
            "jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": tool, "arguments": {"number": number}},
        },
    })
}

/// Returns whether a response has the id `number` and the text `number`, so that it belongs to the
/// concurrent call with this number.
pub(super) fn is_response_to_call(response: &Value, number: u64) -> bool {
    let id = response.pointer("/response/mcp_response/id");
    let text = response.pointer("/response/mcp_response/result/content/0/text");
    let text = text.and_then(Value::as_str);
    id == Some(&number.into()) && text == Some(number.to_string().as_str())
}
