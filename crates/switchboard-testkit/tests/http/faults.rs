//! The effect of each fault on the client and on the server.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode, RawStep};

use crate::client::HttpClient;

async fn start() -> HttpServer {
    HttpServer::start(Script::modern().tool("echo"), Mode::JSON).await
}

fn call() -> Value {
    json!({"name": "echo", "arguments": {"message": "hi"}})
}

/// Sends a tool call to which the server does not respond completely. Returns the bytes that arrive
/// and the error that ends the connection.
async fn lost_call(server: &HttpServer) -> (Vec<u8>, ErrorKind) {
    let mut client = HttpClient::open(server).await;
    client.send_modern("tools/call", call()).await;
    client.rest().await
}

#[tokio::test]
async fn status_fault_hits_nth_match() {
    let server = start().await;
    let busy = Fault::status(503).header("Retry-After", "2").body("busy");
    server.arm(busy.on("tools/call echo").nth(2));
    let mut client = HttpClient::open(&server).await;
    assert_eq!(
        client.request_modern("tools/call", call()).await.status,
        200
    );
    let refused = client.request_modern("tools/call", call()).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert_eq!(refused.body, b"busy");
    assert_eq!(
        client.request_modern("tools/call", call()).await.status,
        200
    );
    assert_eq!(server.count("tools/call"), 2);
    assert_eq!(server.requests_with("tools/call").len(), 3);
}

#[tokio::test]
async fn raw_steps_replace_response() {
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
async fn status_fault_can_follow_execution() {
    let server = start().await;
    server.arm(Fault::status(504).after_execution());
    let mut client = HttpClient::open(&server).await;
    assert_eq!(
        client.request_modern("tools/call", call()).await.status,
        504
    );
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn close_on_accept_counts_connections() {
    let server = start().await;
    server.arm(Fault::close_on_accept().times(2));
    for _ in 0..2 {
        let mut client = HttpClient::open(&server).await;
        assert_eq!(client.rest().await.0, b"");
    }
    let mut client = HttpClient::open(&server).await;
    assert_eq!(
        client.request_modern("tools/call", call()).await.status,
        200
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn close_faults_execute_as_documented() {
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
async fn close_in_body_reads_half() {
    let server = start().await;
    server.arm(Fault::close_in_body().on("tools/call"));
    let mut client = HttpClient::open(&server).await;
    let long = json!({"name": "echo", "arguments": {"message": "x".repeat(50_000)}});
    client.send_modern("tools/call", long).await;
    client.rest().await;
    let request = &server.requests()[0];
    assert!(!request.is_complete);
    assert_eq!(request.header("mcp-name"), Some("echo"));
    assert!((25_000..26_000).contains(&request.body.len()));
}

#[tokio::test]
async fn response_is_cut_at_byte() {
    let server = start().await;
    server.arm(Fault::close_in_response(20));
    let (bytes, end) = lost_call(&server).await;
    assert_eq!(bytes, b"HTTP/1.1 200 OK\r\nCon");
    assert_eq!(end, ErrorKind::UnexpectedEof);
    server.arm(Fault::close_in_response(0).with_reset());
    let (bytes, end) = lost_call(&server).await;
    assert_eq!((bytes, end), (Vec::new(), ErrorKind::ConnectionReset));
    assert_eq!(server.count("tools/call"), 2);
}

#[tokio::test]
async fn close_after_response_is_unannounced() {
    let server = start().await;
    server.arm(Fault::close_after_response());
    let mut client = HttpClient::open(&server).await;
    let response = client.request_modern("tools/call", call()).await;
    assert_eq!(response.header("connection"), None);
    assert_eq!(client.rest().await, (Vec::new(), ErrorKind::UnexpectedEof));
}

#[tokio::test]
async fn end_stream_sends_no_response() {
    let server = HttpServer::start(Script::modern().tool("echo"), Mode::SSE).await;
    server.arm(Fault::end_stream());
    let mut client = HttpClient::open(&server).await;
    let response = client.request_modern("tools/call", call()).await;
    assert_eq!((response.status, response.body.len()), (200, 0));
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn raw_bytes_replace_response() {
    let server = start().await;
    server.arm(Fault::raw("HTTP/9 what?\r\n\r\n").on("POST"));
    let (bytes, _) = lost_call(&server).await;
    assert_eq!(bytes, b"HTTP/9 what?\r\n\r\n");
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn slow_response_is_complete() {
    let server = start().await;
    server.arm(Fault::slow(7, Duration::ZERO));
    let mut client = HttpClient::open(&server).await;
    let response = client.request_modern("tools/call", call()).await;
    assert_eq!(response.json()["result"]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn hang_never_responds() {
    let server = start().await;
    server.arm(Fault::hang().on("tools/call"));
    let mut hanging = HttpClient::open(&server).await;
    hanging.send_modern("tools/call", call()).await;
    server
        .wait_until("the request arrived", |server| server.requests().len() == 1)
        .await;
    let mut client = HttpClient::open(&server).await;
    assert_eq!(
        client.request_modern("tools/call", call()).await.status,
        200
    );
    drop(hanging);
    server
        .wait_until("the connection is closed", |server| {
            server.open_connections() == 1
        })
        .await;
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn redirect_and_challenge_send_headers() {
    let server = start().await;
    server.arm(Fault::redirect(307, "http://127.0.0.1:1/mcp"));
    server.arm(Fault::unauthorized("Bearer realm=\"x\""));
    let mut client = HttpClient::open(&server).await;
    let moved = client.request_modern("tools/list", json!({})).await;
    assert_eq!(moved.header("location"), Some("http://127.0.0.1:1/mcp"));
    let refused = client.request_modern("tools/list", json!({})).await;
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, Some("Bearer realm=\"x\""))
    );
    assert_eq!(
        client.request_modern("tools/list", json!({})).await.status,
        200
    );
}
