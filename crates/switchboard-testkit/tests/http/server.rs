//! What a test can do to a server, and see of it.

use std::io::ErrorKind;

use serde_json::json;
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{Script, Step};
use tokio::net::TcpStream;

use crate::client::Wire;

fn script() -> Script {
    Script::modern().tool("echo")
}

#[tokio::test]
async fn every_request_is_seen_as_it_came() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await.with("X-Secret", "tell nobody");
    wire.ask_modern("tools/list", json!({})).await;
    let mut other = Wire::open(&server).await;
    other.send("GET /other?a=b", &[], b"").await;
    assert_eq!(other.answer().await.unwrap().status, 404);
    let requests = server.requests();
    let lines: Vec<_> = requests
        .iter()
        .map(|seen| (seen.method.as_str(), seen.path.as_str(), seen.connection))
        .collect();
    assert_eq!(lines, [("POST", "/mcp", 1), ("GET", "/other?a=b", 2)]);
    assert_eq!(requests[0].header("x-secret"), Some("tell nobody"));
    assert_eq!(requests[0].rpc_method().as_deref(), Some("tools/list"));
    let bytes = String::from_utf8(server.received_bytes()).unwrap();
    assert_eq!(bytes.matches("tell nobody").count(), 1);
}

#[tokio::test]
async fn a_token_can_be_required() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    server.require_bearer("secret");
    let mut wire = Wire::open(&server).await;
    let refused = wire.ask_modern("tools/list", json!({})).await;
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.starts_with("Bearer resource_metadata=\"http://127.0.0.1:"));
    let mut wire = wire.with("Authorization", "Bearer secret");
    assert_eq!(wire.ask_modern("tools/list", json!({})).await.status, 200);
}

#[tokio::test]
async fn connections_are_dropped_and_a_stopped_server_refuses_them() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.ask_modern("tools/list", json!({})).await;
    server.drop_connections().await;
    assert_eq!(wire.rest().await, (Vec::new(), ErrorKind::UnexpectedEof));
    assert_eq!(server.open_connections(), 0);
    let mut wire = Wire::open(&server).await;
    wire.ask_modern("tools/list", json!({})).await;
    server.stop().await;
    assert_eq!(wire.rest().await.0, b"");
    let refused = TcpStream::connect(server.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    server.restart().await;
    let mut wire = Wire::open(&server).await;
    assert_eq!(wire.ask_modern("tools/list", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_script_can_end_the_server() {
    let script = script().on("tools/call", [Step::Abort]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.send_modern("tools/call", json!({"name": "echo"}))
        .await;
    assert_eq!(wire.rest().await.0, b"");
    assert!(TcpStream::connect(server.address()).await.is_err());
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn many_are_served_at_once() {
    let script = script().on("tools/call", [Step::DelayMs(20), Step::text("done")]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut wires = Vec::new();
    for _ in 0..50 {
        let mut wire = Wire::open(&server).await;
        wire.send_modern("tools/call", json!({"name": "echo"}))
            .await;
        wires.push(wire);
    }
    server.wait_count("tools/call", 50).await;
    for wire in &mut wires {
        assert_eq!(wire.answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn an_endless_answer_waits_for_its_reader() {
    let script = script().on("tools/call", [Step::repeated_bytes("x", u64::MAX)]);
    for mode in [Mode::JSON, Mode::SSE] {
        let server = HttpServer::start(script.clone(), mode).await;
        let mut wire = Wire::open(&server).await;
        wire.send_modern("tools/call", json!({"name": "echo"}))
            .await;
        assert_eq!(wire.head().await.unwrap().status, 200);
        for _ in 0..100 {
            let chunk = wire.chunk().await.unwrap().unwrap();
            assert!(chunk.bytes().all(|byte| byte == b'x'));
        }
        drop(wire);
        server
            .wait_until("it is closed", |server| server.open_connections() == 0)
            .await;
    }
}

#[tokio::test]
async fn connections_that_wait_are_not_kept() {
    let script = script().on("tools/call", [Step::Hang]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut waiting = Wire::open(&server).await;
    waiting.ask_modern("tools/list", json!({})).await;
    let mut busy = Wire::open(&server).await;
    busy.send_modern("tools/call", json!({"name": "echo"}))
        .await;
    server.wait_count("tools/call", 1).await;

    server.close_idle_connections();
    assert!(waiting.answer().await.is_err(), "it is closed");
    assert_eq!(server.open_connections(), 2, "not by the client");
    drop(waiting);
    server
        .wait_until("it is closed", |server| server.open_connections() == 1)
        .await;

    let mut new = Wire::open(&server).await;
    let answer = new.ask_modern("tools/list", json!({})).await;
    assert_eq!(answer.status, 200);
    assert!(new.answer().await.is_err(), "it is closed");
}
