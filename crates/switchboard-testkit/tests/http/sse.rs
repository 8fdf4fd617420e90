//! The transport of the first revision.

use serde_json::json;
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode};

use crate::client::Wire;

/// Opens the stream and reads where to post to.
async fn open(server: &HttpServer) -> (Wire, String) {
    let mut stream = Wire::open(server).await;
    stream.send_get("/sse", &[]).await;
    assert_eq!(stream.head().await.unwrap().status, 200);
    let endpoint = stream.chunk().await.unwrap().unwrap();
    let path = endpoint.strip_prefix("event: endpoint\ndata: ").unwrap();
    (stream, path.trim_end().to_owned())
}

#[tokio::test]
async fn answers_come_on_the_stream() {
    let server = HttpServer::start(Script::legacy().tool("echo"), Mode::LegacySse).await;
    assert!(server.url().ends_with("/sse"));
    let (mut stream, path) = open(&server).await;
    let mut wire = Wire::open(&server).await;
    let call = wire.request(
        "tools/call",
        json!({"name": "echo", "arguments": {"message": "hi"}}),
    );
    wire.send_post(&path, &call).await;
    assert_eq!(wire.answer().await.unwrap().status, 202);
    let event = stream.chunk().await.unwrap().unwrap();
    assert!(event.contains(r#""text":"hi""#));
    server
        .push_notification("notifications/message", json!({}))
        .await;
    let event = stream.chunk().await.unwrap().unwrap();
    assert!(event.contains("notifications/message"));
}

#[tokio::test]
async fn a_session_ends_with_its_stream() {
    let server = HttpServer::start(Script::legacy(), Mode::LegacySse).await;
    let (stream, path) = open(&server).await;
    drop(stream);
    server
        .wait_until("the stream ends", |server| server.open_streams() == 0)
        .await;
    let mut wire = Wire::open(&server).await;
    let ping = wire.request("ping", json!({}));
    wire.send_post(&path, &ping).await;
    assert_eq!(wire.answer().await.unwrap().status, 404);
    wire.send_post("/sse", &ping).await;
    assert_eq!(wire.answer().await.unwrap().status, 405);
}

#[tokio::test]
async fn a_call_can_be_carried_out_and_its_post_lost() {
    let server = HttpServer::start(Script::legacy().tool("echo"), Mode::LegacySse).await;
    let (mut stream, path) = open(&server).await;
    server.arm(Fault::close_after_execution().on("tools/call"));
    let mut wire = Wire::open(&server).await;
    let call = wire.request("tools/call", json!({"name": "echo"}));
    wire.send_post(&path, &call).await;
    assert!(wire.answer().await.is_err());
    assert_eq!(server.count("tools/call"), 1);
    assert!(stream.chunk().await.unwrap().unwrap().contains("result"));
}

#[tokio::test]
async fn the_address_to_post_to_is_the_tests_choice() {
    let server = HttpServer::start(Script::legacy(), Mode::LegacySse).await;
    server.set_endpoint("http://elsewhere.test/message");
    let (_, path) = open(&server).await;
    assert_eq!(path, "http://elsewhere.test/message");
}
