//! Raw servers send exactly the given bytes and record exactly the received ones.

use std::io::ErrorKind;

use switchboard_testkit::http::{RawServer, RawStep};

use crate::client::HttpClient;

#[tokio::test]
async fn bytes_are_sent_and_recorded() {
    let server = RawServer::start([
        RawStep::ReadRequest,
        RawStep::send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
        RawStep::ReadRequest,
        RawStep::send("garbage"),
    ])
    .await;
    let mut client = HttpClient::connect(server.address()).await;
    client
        .send("POST /mcp", &[("X-Header", "value")], b"body")
        .await;
    assert_eq!(client.response().await.unwrap().body, b"hi");
    client.send("POST /mcp", &[], b"again").await;
    let end = (b"garbage".to_vec(), ErrorKind::UnexpectedEof);
    assert_eq!(client.rest().await, end);
    let received = String::from_utf8(server.received().remove(0)).unwrap();
    assert!(received.contains("X-Header: value\r\n"));
    assert!(received.ends_with("again"));
}

#[tokio::test]
async fn connections_run_different_steps() {
    let server = RawServer::in_sequence([
        vec![RawStep::Reset],
        vec![RawStep::send("later"), RawStep::Close],
    ])
    .await;
    let mut first = HttpClient::connect(server.address()).await;
    assert_eq!(first.rest().await.1, ErrorKind::ConnectionReset);
    for _ in 0..2 {
        let mut later = HttpClient::connect(server.address()).await;
        assert_eq!(later.rest().await.0, b"later");
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn bytes_repeat_until_client_disconnects() {
    let server = RawServer::in_sequence([
        vec![RawStep::send_times(100_000, "abc")],
        vec![RawStep::send_forever("x")],
    ])
    .await;
    let mut counted = HttpClient::connect(server.address()).await;
    assert_eq!(counted.rest().await.0.len(), 300_000);
    let endless = HttpClient::connect(server.address()).await;
    let is_full = |server: &RawServer| server.sent() > 600_000;
    server.wait_until("600 kB are sent", is_full).await;
    drop(endless);
    let is_over = |server: &RawServer| server.open_connections() == 0;
    server.wait_until("the connection is closed", is_over).await;
}

#[tokio::test]
async fn hanging_server_notices_disconnect() {
    let server = RawServer::start([RawStep::ReadBytes(3), RawStep::Hang]).await;
    let mut client = HttpClient::connect(server.address()).await;
    client.send_bytes(b"abcdef").await.unwrap();
    server
        .wait_until("the bytes arrived", |server| {
            server.received() == [b"abcdef"]
        })
        .await;
    drop(client);
    server
        .wait_until("the connection is closed", |server| {
            server.open_connections() == 0
        })
        .await;
}
