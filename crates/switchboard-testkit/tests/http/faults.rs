//! Each fault, seen from the client's side and from the server's.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode, RawStep};

use crate::client::Wire;

async fn start() -> HttpServer {
    HttpServer::start(Script::modern().tool("echo"), Mode::JSON).await
}

fn call() -> Value {
    json!({"name": "echo", "arguments": {"message": "hi"}})
}

/// Makes a call that gets no whole answer, and says what came instead.
async fn lost_call(server: &HttpServer) -> (Vec<u8>, ErrorKind) {
    let mut wire = Wire::open(server).await;
    wire.send_modern("tools/call", call()).await;
    wire.rest().await
}

#[tokio::test]
async fn an_answer_of_the_tests_choice() {
    let server = start().await;
    let busy = Fault::status(503).header("Retry-After", "2").body("busy");
    server.arm(busy.on("tools/call echo").nth(2));
    let mut wire = Wire::open(&server).await;
    assert_eq!(wire.ask_modern("tools/call", call()).await.status, 200);
    let refused = wire.ask_modern("tools/call", call()).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert_eq!(refused.body, b"busy");
    assert_eq!(wire.ask_modern("tools/call", call()).await.status, 200);
    assert_eq!(server.count("tools/call"), 2);
    assert_eq!(server.requests_with("tools/call").len(), 3);
}

#[tokio::test]
async fn steps_in_the_place_of_an_answer() {
    let server = start().await;
    let steps = [
        RawStep::send("HTTP/1.1 200 OK\r\n\r\n$ID "),
        RawStep::send_times(100_000, "ab"),
        RawStep::Close,
        RawStep::send("never"),
    ];
    server.arm(Fault::raw_steps(steps).on("tools/call"));
    let (bytes, _) = lost_call(&server).await;
    let (head, body) = bytes.split_at(19);
    assert_eq!(head, b"HTTP/1.1 200 OK\r\n\r\n");
    let id = server.requests()[0].json()["id"].to_string();
    assert_eq!(body, format!("{id} {}", "ab".repeat(100_000)).as_bytes());
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn a_gateway_that_gives_up_after_the_call_was_made() {
    let server = start().await;
    server.arm(Fault::status(504).after_execution());
    let mut wire = Wire::open(&server).await;
    assert_eq!(wire.ask_modern("tools/call", call()).await.status, 504);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn a_connection_that_is_closed_before_anything_is_read() {
    let server = start().await;
    server.arm(Fault::close_on_accept().times(2));
    for _ in 0..2 {
        let mut wire = Wire::open(&server).await;
        assert_eq!(wire.rest().await.0, b"");
    }
    let mut wire = Wire::open(&server).await;
    assert_eq!(wire.ask_modern("tools/call", call()).await.status, 200);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn connections_that_are_closed_and_what_was_done_before() {
    for (fault, executed) in [
        (Fault::close_in_body(), 0),
        (Fault::close_before_execution(), 0),
        (Fault::close_after_execution(), 1),
    ] {
        for fault in [fault.clone(), fault.with_reset()] {
            let server = start().await;
            server.arm(fault.clone().on("tools/call"));
            let (bytes, _) = lost_call(&server).await;
            assert_eq!(bytes, b"", "{fault:?}");
            assert_eq!(server.count("tools/call"), executed, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn half_a_body_is_all_that_is_read() {
    let server = start().await;
    server.arm(Fault::close_in_body().on("tools/call"));
    let mut wire = Wire::open(&server).await;
    let long = json!({"name": "echo", "arguments": {"message": "x".repeat(50_000)}});
    wire.send_modern("tools/call", long).await;
    wire.rest().await;
    let seen = &server.requests()[0];
    assert!(!seen.is_complete);
    assert_eq!(seen.header("mcp-name"), Some("echo"));
    assert!((25_000..26_000).contains(&seen.body.len()));
}

#[tokio::test]
async fn an_answer_that_is_cut() {
    let server = start().await;
    server.arm(Fault::close_in_answer(20));
    let (bytes, end) = lost_call(&server).await;
    assert_eq!(bytes, b"HTTP/1.1 200 OK\r\nCon");
    assert_eq!(end, ErrorKind::UnexpectedEof);
    server.arm(Fault::close_in_answer(0).with_reset());
    let (bytes, end) = lost_call(&server).await;
    assert_eq!((bytes, end), (Vec::new(), ErrorKind::ConnectionReset));
    assert_eq!(server.count("tools/call"), 2);
}

#[tokio::test]
async fn a_connection_that_is_closed_behind_the_answer() {
    let server = start().await;
    server.arm(Fault::close_after_answer());
    let mut wire = Wire::open(&server).await;
    let answer = wire.ask_modern("tools/call", call()).await;
    assert_eq!(answer.header("connection"), None);
    assert_eq!(wire.rest().await, (Vec::new(), ErrorKind::UnexpectedEof));
}

#[tokio::test]
async fn a_modern_stream_that_ends_without_an_answer() {
    let server = HttpServer::start(Script::modern().tool("echo"), Mode::SSE).await;
    server.arm(Fault::end_stream());
    let mut wire = Wire::open(&server).await;
    let answer = wire.ask_modern("tools/call", call()).await;
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn bytes_of_the_tests_choice() {
    let server = start().await;
    server.arm(Fault::raw("HTTP/9 what?\r\n\r\n").on("POST"));
    let (bytes, _) = lost_call(&server).await;
    assert_eq!(bytes, b"HTTP/9 what?\r\n\r\n");
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn an_answer_that_comes_in_drops() {
    let server = start().await;
    server.arm(Fault::slow(7, Duration::ZERO));
    let mut wire = Wire::open(&server).await;
    let answer = wire.ask_modern("tools/call", call()).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn no_answer_at_all() {
    let server = start().await;
    server.arm(Fault::hang().on("tools/call"));
    let mut hanging = Wire::open(&server).await;
    hanging.send_modern("tools/call", call()).await;
    server
        .wait_until("it arrived", |server| server.requests().len() == 1)
        .await;
    let mut wire = Wire::open(&server).await;
    assert_eq!(wire.ask_modern("tools/call", call()).await.status, 200);
    drop(hanging);
    server
        .wait_until("it is closed", |server| server.open_connections() == 1)
        .await;
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn a_redirect_and_a_challenge() {
    let server = start().await;
    server.arm(Fault::redirect(307, "http://127.0.0.1:1/mcp"));
    server.arm(Fault::unauthorized("Bearer realm=\"x\""));
    let mut wire = Wire::open(&server).await;
    let moved = wire.ask_modern("tools/list", json!({})).await;
    assert_eq!(moved.header("location"), Some("http://127.0.0.1:1/mcp"));
    let refused = wire.ask_modern("tools/list", json!({})).await;
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, Some("Bearer realm=\"x\""))
    );
    assert_eq!(wire.ask_modern("tools/list", json!({})).await.status, 200);
}
