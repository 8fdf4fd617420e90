//! Tasks over HTTP: they outlive connections, sessions and the server itself.

use serde_json::{Value, json};
use switchboard_testkit::Script;
use switchboard_testkit::http::{HttpServer, Mode};

use crate::client::Wire;

fn declared(mut params: Value) -> Value {
    params["_capabilities"] = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    params
}

#[tokio::test]
async fn a_modern_task_outlives_a_restart() {
    let server = HttpServer::start(Script::modern().research(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    let call = json!({"name": "research", "arguments": {"steps": 2}});
    let begun = wire.ask_modern("tools/call", declared(call)).await.json();
    assert_eq!(begun["result"]["resultType"], "task");
    let id = json!({"taskId": begun["result"]["taskId"]});
    let polled = wire
        .ask_modern("tasks/get", declared(id.clone()))
        .await
        .json();
    assert_eq!(polled["result"]["status"], "working");
    server.restart().await;
    let mut wire = Wire::open(&server).await;
    let polled = wire
        .ask_modern("tasks/get", declared(id.clone()))
        .await
        .json();
    assert_eq!(polled["result"]["status"], "completed");
    assert_eq!(server.count("ran research"), 1);
    let undeclared = wire.ask_modern("tasks/get", id).await;
    assert_eq!(undeclared.status, 400);
    assert_eq!(undeclared.json()["error"]["code"], -32021);
}

#[tokio::test]
async fn the_header_names_the_task() {
    let server = HttpServer::start(Script::modern().research(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = wire.request("tasks/get", json!({"taskId": "task-1", "_meta": meta}));
    let mut wire = wire
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "tasks/get");
    assert_eq!(wire.post(&message).await.json()["error"]["code"], -32020);
}

#[tokio::test]
async fn a_legacy_task_outlives_its_session_and_asks_in_the_next() {
    let server = HttpServer::start(Script::legacy().research(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let call = json!({"name": "research", "arguments": {"steps": 2, "ask": true}, "task": {}});
    let begun = wire.ask("tools/call", call).await.json();
    let id = json!({"taskId": begun["result"]["task"]["taskId"]});
    server.expire_sessions();
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let polled = wire.ask("tasks/get", id.clone()).await.json();
    assert_eq!(polled["result"]["status"], "input_required");
    let message = wire.request("tasks/result", id);
    wire.send_post("/mcp", &message).await;
    wire.head().await.unwrap();
    wire.chunk().await.unwrap();
    let asked = wire.chunk().await.unwrap().unwrap();
    let asked = asked.split_once("data: ").unwrap().1;
    let asked: Value = serde_json::from_str(asked.trim()).unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let mut other = wire.another().await;
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}});
    assert_eq!(other.post(&answer).await.status, 202);
    let result = wire.chunk().await.unwrap().unwrap();
    assert!(result.contains("research on anything"), "{result}");
    assert_eq!(server.count("ran research"), 1);
}
