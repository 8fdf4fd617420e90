//! One round trip of the real CLI: the model calls an in-process tool and gets its result.

use serde_json::{Value, json};
use switchboard_testkit::fake_model::{Block, FakeModel, Turn};
use switchboard_testkit::{RealClaude, assert_no_process_left};

use crate::json_lines::JsonLines;

/// An in-process MCP server with the tool `add`. Returns the payload with which to respond to a
/// control request.
fn calculator(request: &Value) -> Value {
    let message = &request["message"];
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "calculator", "version": "1.0"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "add", "description": "Adds two numbers",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
        }]}),
        "tools/call" => {
            let [a, b] = ["a", "b"].map(|name| params["arguments"][name].as_i64().unwrap());
            json!({"content": [{"type": "text", "text": (a + b).to_string()}]})
        }
        _ => json!({}),
    };
    json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}})
}

#[tokio::test]
async fn tool_result_reaches_model() {
    let Some(claude) = RealClaude::find() else {
        return;
    };
    let model = FakeModel::start([
        Turn::blocks([
            Block::text("Let me add."),
            Block::tool("mcp__calculator__add", json!({"a": 15, "b": 27})),
        ]),
        Turn::text("It is 42."),
    ])
    .await;
    let mut command = claude.command(&model);
    command
        .args(["--output-format", "stream-json", "--verbose"])
        .args(["--input-format", "stream-json"])
        .args(["--allowedTools", "mcp__calculator", "--strict-mcp-config"]);
    let mut cli = JsonLines::start(command);
    let initialize =
        json!({"subtype": "initialize", "hooks": null, "sdkMcpServers": ["calculator"]});
    cli.send_request("1", initialize).await;
    cli.send_user("What is 15 + 27?").await;
    let result = cli
        .until(calculator, |message| message["type"] == "result")
        .await;
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["result"], "It is 42.");
    assert_eq!(cli.finish().await, Some(0));

    let requests = model.requests();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert!(requests[0].tools().contains(&"mcp__calculator__add"));
    let outcome = requests[1].last_tool_result();
    assert_eq!((outcome.text().as_str(), outcome.is_error), ("42", false));
    assert_eq!(model.remaining_turns(), 0);
    assert_no_process_left(claude.sandbox().tag()).await;
}
