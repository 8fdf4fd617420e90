//! The exact output of single steps, in memory and on a paused clock.

use std::time::Duration;

use serde_json::json;
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::client::{LineClient, open};

/// Connects to a server that runs these steps for `tools/call`, and calls its tool `any`. Does not
/// read the response.
async fn call(steps: impl IntoIterator<Item = Step>) -> LineClient {
    let script = Script::legacy().on("tools/call", steps);
    let mut client = open(&MemoryServer::new(script));
    client.call("any").await;
    client
}

#[tokio::test(start_paused = true)]
async fn replies_are_sent_verbatim() {
    let error = Step::Error {
        code: -32042,
        message: "no".to_owned(),
        data: Some(json!({"why": 1})),
    };
    let mut client = call([
        Step::Reply(json!({"resultType": "strange"})),
        error,
        Step::error(-1, "never"),
        Step::text("hello"),
        Step::ReplyTwice(json!([])),
    ])
    .await;
    for expected in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "strange"}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32042, "message": "no", "data": {"why": 1}}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "never"}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "hello"}]}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": []}),
        json!({"jsonrpc": "2.0", "id": 1, "result": []}),
    ] {
        assert_eq!(client.next().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn placeholders_are_replaced() {
    let steps = [
        Step::raw(r#"{"id": "$ID", "id": $ID.0, "token": $TOKEN}"#),
        Step::bytes("$ID"),
        Step::raw(""),
    ];
    let script = Script::legacy().on("tools/call", steps);
    let mut client = open(&MemoryServer::new(script));
    let params = json!({"name": "any", "_meta": {"progressToken": "t-1"}});
    client.request("tools/call", params).await;
    let line = client.next_line().await.unwrap();
    assert_eq!(line, br#"{"id": "1", "id": 1.0, "token": "t-1"}"#);
    assert_eq!(client.next_line().await.unwrap(), b"1");
}

#[tokio::test(start_paused = true)]
async fn bytes_are_repeated_without_line_feed() {
    let mut client = call([
        Step::repeated_bytes("ab", 100_000),
        Step::binary(&[0xff, 0x00, b'\r', b'\n']),
        Step::bytes("half"),
        Step::Exit(0),
    ])
    .await;
    let mut expected = "ab".repeat(100_000).into_bytes();
    expected.extend(b"\xff\x00\r\nhalf");
    assert_eq!(client.rest().await, expected);
}

#[tokio::test(start_paused = true)]
async fn reply_of_size_is_exact() {
    for size in [100, 64 * 1024, 64 * 1024 + 1] {
        let line = call([Step::ReplyOfSize(size)]).await.next_line().await;
        let line = line.unwrap();
        assert_eq!(line.len(), size);
        let reply: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert!(reply["result"]["content"][0]["text"].is_string());
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_can_get_late_response() {
    let script = Script::legacy()
        .on("tools/call", [Step::DelayMs(1000), Step::text("late")])
        .on("notifications/cancelled", [Step::notify("cancel/received")]);
    let mut client = open(&MemoryServer::new(script));
    let id = client.call("any").await;
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    assert_eq!(client.next().await["method"], "cancel/received");
    assert_eq!(client.next().await["id"], id);
}

#[tokio::test(start_paused = true)]
async fn server_that_never_reads_blocks_writer() {
    let mut client = open(&MemoryServer::new(Script::legacy().on_start([Step::Hang])));
    let line = "x".repeat(1024 * 1024);
    let sent = tokio::time::timeout(Duration::from_secs(60), client.send_line(&line)).await;
    assert!(sent.is_err());
}
