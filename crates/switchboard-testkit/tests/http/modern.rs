//! The modern revision: every request for itself.

use serde_json::json;
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{Script, Step};

use crate::client::Wire;

fn script() -> Script {
    Script::modern().tool("echo")
}

#[tokio::test]
async fn a_request_is_answered_with_json_on_a_connection_that_stays() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    let answer = wire.ask_modern("server/discover", json!({})).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_eq!(
        answer.json()["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );
    let call = json!({"name": "echo", "arguments": {"message": "hi"}});
    let answer = wire.ask_modern("tools/call", call).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    assert_eq!(server.connections(), 1);
    assert_eq!(server.count("tools/call"), 1);
    assert_eq!(server.count("tools/call echo"), 1);
    let executed = server.executed("tools/call");
    assert_eq!(executed[0]["params"]["arguments"]["message"], "hi");
}

#[tokio::test]
async fn a_stream_carries_what_is_said_before_the_answer() {
    let script = script().on(
        "tools/call echo",
        [Step::notify("notifications/message"), Step::text("done")],
    );
    for mode in [Mode::SSE, Mode::JSON] {
        let server = HttpServer::start(script.clone(), mode).await;
        let mut wire = Wire::open(&server).await;
        let answer = wire.ask_modern("tools/call", json!({"name": "echo"})).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        let events = answer.events();
        assert_eq!(events[0]["method"], "notifications/message");
        assert_eq!(events[1]["result"]["content"][0]["text"], "done");
        assert_eq!(events.len(), 2);
        assert!(!String::from_utf8_lossy(&answer.body).contains("id: "));
    }
}

#[tokio::test]
async fn refusals_have_their_status() {
    let server = HttpServer::start(script(), Mode::SSE).await;
    let mut wire = Wire::open(&server).await;
    let unknown = wire.ask_modern("no/such", json!({})).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (404, &json!(-32601))
    );
    let initialize = wire.ask("initialize", json!({})).await;
    assert_eq!(initialize.status, 400, "it does not say what it is");
    let undescribed = wire.ask("tools/list", json!({})).await;
    assert_eq!(undescribed.status, 400);
    wire.send_get("/mcp", &[]).await;
    assert_eq!(wire.answer().await.unwrap().status, 405);
    wire.send("POST /mcp", &[("Accept", "text/html")], b"{}")
        .await;
    assert_eq!(wire.answer().await.unwrap().status, 406);
}

#[tokio::test]
async fn headers_must_say_what_the_body_says() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = wire.request("tools/call", json!({"name": "echo", "_meta": meta}));
    let mut wire = wire
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "tools/call");
    let without_name = wire.post(&message).await;
    assert_eq!(
        (without_name.status, &without_name.json()["error"]["code"]),
        (400, &json!(-32020))
    );
    let mut dressed = wire.with("Mcp-Name", "=?base64?ZWNobw==?=");
    assert_eq!(dressed.post(&message).await.status, 200);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn a_subscription_is_acknowledged_and_hears_what_is_pushed() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    wire.send_modern("subscriptions/listen", params).await;
    let head = wire.head().await.unwrap();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    let first = wire.chunk().await.unwrap().unwrap();
    assert!(first.contains("notifications/subscriptions/acknowledged"));
    assert_eq!(server.open_streams(), 1);
    server
        .push_notification("notifications/tools/list_changed", json!({}))
        .await;
    let pushed = wire.chunk().await.unwrap().unwrap();
    assert!(pushed.contains("notifications/tools/list_changed"));
    assert!(pushed.contains(r#""io.modelcontextprotocol/subscriptionId":1"#));
    drop(wire);
    server
        .wait_until("the stream ends", |server| server.open_streams() == 0)
        .await;
}

#[tokio::test]
async fn a_disconnect_cancels() {
    let script = Script::modern().on(
        "tools/call",
        [
            Step::background([Step::Hang, Step::count("never")]),
            Step::Hang,
            Step::count("never"),
        ],
    );
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.send_modern("tools/call", json!({"name": "slow"}))
        .await;
    server.wait_count("tools/call", 1).await;
    assert_eq!(server.open_connections(), 1);
    drop(wire);
    server
        .wait_until("it is closed", |server| server.open_connections() == 0)
        .await;
    assert_eq!(server.count("never"), 0);
}
