//! The default responses reject incorrect requests. A lenient fake would hide missing fields in the
//! requests of the client under test.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::{MemoryServer, Script, tool};
use tokio::time::Instant;

use crate::client::{LineClient, modern, modern_meta, open};

fn client(script: Script) -> LineClient {
    open(&MemoryServer::new(script))
}

#[tokio::test(start_paused = true)]
async fn modern_request_needs_meta() {
    let mut client = client(Script::modern());
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for (method, meta, code) in [
        ("initialize", json!({}), -32601),
        ("ping", modern_meta(), -32601),
        ("tools/list", json!({}), -32602),
        ("tools/list", json!({version: "2026-07-28"}), -32602),
        ("tools/list", json!({capabilities: {}}), -32602),
        (
            "tools/list",
            json!({version: "2031-01-01", capabilities: {}}),
            -32022,
        ),
        ("prompts/list", modern_meta(), -32601),
    ] {
        let response = client.request_result(method, json!({"_meta": meta})).await;
        assert_eq!(response["error"]["code"], code, "{method} {meta}");
        if code == -32022 {
            let data = json!({"supported": ["2026-07-28"], "requested": "2031-01-01"});
            assert_eq!(response["error"]["data"], data);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_messages_get_errors() {
    let mut client = client(Script::legacy());
    for (line, code) in [("junk", -32700), ("[]", -32600), ("{}", -32600)] {
        client.send_line(line).await.unwrap();
        let response = client.next().await;
        assert_eq!(
            (&response["id"], &response["error"]["code"]),
            (&Value::Null, &json!(code))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_gets_no_response() {
    let mut client = client(Script::legacy());
    let params = json!({"name": "sleep", "arguments": {"ms": 1000}});
    let id = client.request("tools/call", params).await;
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    client.assert_next_is_pong().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_cursor_is_rejected() {
    let mut client = client(Script::legacy());
    let response = client
        .request_result("tools/list", json!({"cursor": "what"}))
        .await;
    assert_eq!(response["error"]["code"], -32602);
}

fn research_call(arguments: &Value) -> Value {
    json!({"name": "research", "arguments": arguments})
}

#[tokio::test(start_paused = true)]
async fn client_without_tasks_waits_or_is_rejected() {
    let before = Instant::now();
    let mut client = open(&MemoryServer::new(Script::modern().research()));
    let result = client
        .request_result("tools/call", modern(&research_call(&json!({"steps": 3}))))
        .await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(before.elapsed(), Duration::from_secs(3));
    let mut task_only = tool("research");
    task_only["execution"]["taskSupport"] = json!("required");
    let mut script = Script::modern().research();
    script.tools = vec![task_only.clone()];
    let mut client = open(&MemoryServer::new(script));
    let response = client
        .request_result("tools/call", modern(&research_call(&json!({}))))
        .await;
    assert_eq!(response["error"]["code"], -32021);
    let mut script = Script::legacy().research();
    script.tools = vec![task_only];
    let mut client = open(&MemoryServer::new(script));
    let response = client
        .request_result("tools/call", research_call(&json!({})))
        .await;
    assert_eq!(response["error"]["code"], -32601);
}
