//! The legacy revisions over streamable HTTP: sessions, and streams that can be resumed.

use std::time::Duration;

use serde_json::json;
use switchboard_testkit::http::{Fault, HttpServer, Mode, ResponseFormat};
use switchboard_testkit::{Script, Step};

use crate::client::Wire;

fn script() -> Script {
    Script::legacy().tool("echo")
}

fn call(message: &str) -> serde_json::Value {
    json!({"name": "echo", "arguments": {"message": message}})
}

#[tokio::test]
async fn a_session_begins_with_initialize_and_ends_with_delete() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    assert_eq!(wire.ask("tools/list", json!({})).await.status, 400);
    let answer = wire.initialize().await;
    assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25");
    let answer = wire.ask("tools/call", call("hi")).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    wire.send("DELETE /mcp", &[], b"").await;
    assert_eq!(wire.answer().await.unwrap().status, 204);
    assert_eq!(wire.ask("tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn sessions_expire_and_do_not_survive_a_restart() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    server.expire_sessions();
    assert_eq!(wire.ask("ping", json!({})).await.status, 404);
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    server.restart().await;
    let mut again = wire.another().await;
    assert_eq!(again.ask("ping", json!({})).await.status, 404);
    assert_eq!(wire.rest().await.0, b"");
}

#[tokio::test]
async fn a_server_without_sessions_remembers_nobody() {
    let server = HttpServer::start(script(), Mode::STATELESS).await;
    let mut wire = Wire::open(&server).await;
    let answer = wire.ask("tools/call", call("hi")).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    assert_eq!(answer.header("mcp-session-id"), None);
    wire.send_get("/mcp", &[]).await;
    assert_eq!(wire.answer().await.unwrap().status, 405);
    wire.send("DELETE /mcp", &[], b"").await;
    assert_eq!(wire.answer().await.unwrap().status, 405);
}

#[tokio::test]
async fn a_probe_of_the_other_era_is_refused_and_says_why() {
    for (mode, status, code) in [(Mode::JSON, 400, -32000), (Mode::STATELESS, 400, -32000)] {
        let server = HttpServer::start(script(), mode).await;
        let mut wire = Wire::open(&server).await;
        let answer = wire.ask_modern("server/discover", json!({})).await;
        let error = &answer.json()["error"]["code"];
        assert_eq!((answer.status, error), (status, &json!(code)));
    }
}

#[tokio::test]
async fn the_stream_of_a_session_hears_what_is_pushed() {
    let script = script().on("tools/call", [Step::tools_changed(), Step::text("done")]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let mut stream = wire.another().await;
    stream.send_get("/mcp", &[]).await;
    assert_eq!(stream.head().await.unwrap().status, 200);
    let primed = stream.chunk().await.unwrap().unwrap();
    assert_eq!(primed, "id: 0-0\ndata: \n\n");
    let answer = wire.ask("tools/call", call("hi")).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let pushed = stream.chunk().await.unwrap().unwrap();
    assert!(pushed.contains("notifications/tools/list_changed"));
    assert!(pushed.contains("id: 0-1\n"));
    server
        .push_notification("notifications/message", json!({"n": 1}))
        .await;
    assert!(stream.chunk().await.unwrap().unwrap().contains("\"n\":1"));
}

#[tokio::test]
async fn a_stream_that_ended_early_is_resumed_where_it_was() {
    let server = HttpServer::start(script(), Mode::SSE).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let retry = Duration::from_millis(50);
    server.arm(Fault::end_stream_with_retry(retry).on("tools/call"));
    let cut = wire.ask("tools/call", call("hi")).await;
    let text = String::from_utf8_lossy(&cut.body).into_owned();
    assert!(cut.events().is_empty());
    assert!(text.contains("retry: 50\n"));
    let last = text.split_once("id: ").unwrap().1;
    let last = last.split_once('\n').unwrap().0.to_owned();
    wire.send_get("/mcp", &[("Last-Event-ID", &last)]).await;
    let resumed = wire.answer().await.unwrap();
    let events = resumed.events();
    assert_eq!(events[0]["result"]["content"][0]["text"], "hi");
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn a_stream_that_was_cut_is_resumed_behind_what_was_sent() {
    let script = script().on(
        "tools/call",
        [
            Step::notify("notifications/one"),
            Step::notify("notifications/two"),
            Step::text("three"),
        ],
    );
    let mode = Mode::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: false,
    };
    let server = HttpServer::start(script, mode).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let message = wire.request("tools/call", call("hi"));
    wire.send_post("/mcp", &message).await;
    wire.head().await.unwrap();
    wire.chunk().await.unwrap();
    let one = wire.chunk().await.unwrap().unwrap();
    assert!(one.contains("notifications/one"));
    let last = one.split_once("id: ").unwrap().1;
    let last = last.split_once('\n').unwrap().0.to_owned();
    let mut again = wire.another().await;
    drop(wire);
    again.send_get("/mcp", &[("Last-Event-ID", &last)]).await;
    let events = again.answer().await.unwrap().events();
    assert_eq!(events[0]["method"], "notifications/two");
    assert_eq!(events[1]["result"]["content"][0]["text"], "three");
}

#[tokio::test]
async fn the_server_asks_and_is_answered_by_a_post() {
    let script = script().on(
        "tools/call",
        [
            Step::request("roots/list", json!({})),
            Step::ReplyWithResponse,
        ],
    );
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let message = wire.request("tools/call", call("hi"));
    wire.send_post("/mcp", &message).await;
    wire.head().await.unwrap();
    wire.chunk().await.unwrap();
    let question = wire.chunk().await.unwrap().unwrap();
    assert!(question.contains("roots/list"));
    let mut other = wire.another().await;
    let reply = json!({"jsonrpc": "2.0", "id": "server-1", "result": {"roots": []}});
    assert_eq!(other.post(&reply).await.status, 202);
    let answer = wire.chunk().await.unwrap().unwrap();
    assert!(answer.contains("roots"), "{answer}");
}

#[tokio::test]
async fn a_cancellation_is_heeded_and_a_disconnect_is_none() {
    let script = script().on(
        "tools/call",
        [Step::DelayMs(1), Step::Hang, Step::text("never")],
    );
    let server = HttpServer::start(script, Mode::SSE).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let message = wire.request("tools/call", call("hi"));
    wire.send_post("/mcp", &message).await;
    wire.head().await.unwrap();
    let primed = wire.chunk().await.unwrap().unwrap();
    let last = primed.trim_start_matches("id: ");
    let last = last.split_once('\n').unwrap().0.to_owned();
    let mut other = wire.another().await;
    drop(wire);
    let mut resumed = other.another().await;
    resumed.send_get("/mcp", &[("Last-Event-ID", &last)]).await;
    resumed.head().await.unwrap();
    resumed.chunk().await.unwrap();
    let params = json!({"requestId": message["id"]});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(other.post(&cancel).await.status, 202);
    assert_eq!(resumed.chunk().await.unwrap(), None);
}
