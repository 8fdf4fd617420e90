//! HTTP in the modern era: status codes, required headers and cancellation.

use serde_json::json;
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{Script, Step};

use crate::client::HttpClient;

fn script() -> Script {
    Script::modern().tool("echo")
}

#[tokio::test]
async fn errors_have_http_status() {
    let server = HttpServer::start(script(), Mode::SSE).await;
    let mut client = HttpClient::open(&server).await;
    let unknown = client.request_modern("no/such", json!({})).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (404, &json!(-32601))
    );
    let initialize = client.request_legacy("initialize", json!({})).await;
    assert_eq!(initialize.status, 400, "no protocol version");
    let without_meta = client.request_legacy("tools/list", json!({})).await;
    assert_eq!(without_meta.status, 400);
    client.send_get("/mcp", &[]).await;
    assert_eq!(client.response().await.unwrap().status, 405);
    client
        .send("POST /mcp", &[("Accept", "text/html")], b"{}")
        .await;
    assert_eq!(client.response().await.unwrap().status, 406);
}

#[tokio::test]
async fn headers_must_match_body() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut client = HttpClient::open(&server).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = client.message("tools/call", json!({"name": "echo", "_meta": meta}));
    let mut client = client
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "tools/call");
    let without_name = client.post(&message).await;
    assert_eq!(
        (without_name.status, &without_name.json()["error"]["code"]),
        (400, &json!(-32020))
    );
    let mut encoded = client.with("Mcp-Name", "=?base64?ZWNobw==?=");
    assert_eq!(encoded.post(&message).await.status, 200);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn disconnect_cancels_request() {
    let script = Script::modern().on(
        "tools/call",
        [
            Step::background([Step::Hang, Step::count("never")]),
            Step::Hang,
            Step::count("never"),
        ],
    );
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut client = HttpClient::open(&server).await;
    client
        .send_modern("tools/call", json!({"name": "slow"}))
        .await;
    server.wait_count("tools/call", 1).await;
    assert_eq!(server.open_connections(), 1);
    drop(client);
    server
        .wait_until("the connection is closed", |server| {
            server.open_connections() == 0
        })
        .await;
    assert_eq!(server.count("never"), 0);
}

#[tokio::test]
async fn task_header_is_required() {
    let server = HttpServer::start(Script::modern().research(), Mode::JSON).await;
    let mut client = HttpClient::open(&server).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = client.message("tasks/get", json!({"taskId": "task-1", "_meta": meta}));
    let mut client = client
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "tasks/get");
    assert_eq!(client.post(&message).await.json()["error"]["code"], -32020);
}
