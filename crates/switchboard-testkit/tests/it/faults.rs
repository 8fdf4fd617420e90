//! Each step that shapes what a server says, shown to do what it says; in memory, on a paused clock.

use std::time::Duration;

use serde_json::json;
use switchboard_testkit::{MemoryServer, Sandbox, Script, Step};
use tokio::time::Instant;

use crate::client::{Wire, open};

/// Calls the tool `any` of a server that answers it with these steps.
async fn call(steps: impl IntoIterator<Item = Step>) -> Wire {
    let script = Script::legacy().on("tools/call", steps);
    let mut wire = open(&MemoryServer::new(script));
    wire.call("any").await;
    wire
}

#[tokio::test(start_paused = true)]
async fn replies_are_sent_as_they_stand() {
    let error = Step::Error {
        code: -32042,
        message: "no".to_owned(),
        data: Some(json!({"why": 1})),
    };
    let mut wire = call([
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
        assert_eq!(wire.next().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn raw_lines_can_name_the_request_and_its_token() {
    let steps = [
        Step::raw(r#"{"id": "$ID", "id": $ID.0, "token": $TOKEN}"#),
        Step::bytes("$ID"),
        Step::raw(""),
    ];
    let script = Script::legacy().on("tools/call", steps);
    let mut wire = open(&MemoryServer::new(script));
    let params = json!({"name": "any", "_meta": {"progressToken": "t-1"}});
    wire.request("tools/call", params).await;
    let line = wire.next_line().await.unwrap();
    assert_eq!(line, br#"{"id": "1", "id": 1.0, "token": "t-1"}"#);
    assert_eq!(wire.next_line().await.unwrap(), b"1");
}

#[tokio::test(start_paused = true)]
async fn bytes_are_written_without_a_line_feed_as_often_as_asked() {
    let mut wire = call([
        Step::repeated_bytes("ab", 100_000),
        Step::binary(&[0xff, 0x00, b'\r', b'\n']),
        Step::bytes("half"),
        Step::Exit(0),
    ])
    .await;
    let mut expected = "ab".repeat(100_000).into_bytes();
    expected.extend(b"\xff\x00\r\nhalf");
    assert_eq!(wire.rest().await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_seventeen_mebibytes_needs_no_large_script() {
    let mut wire = call([
        Step::repeated_bytes("x", 17 * 1024 * 1024),
        Step::bytes("\n"),
    ])
    .await;
    assert_eq!(wire.next_line().await.unwrap().len(), 17 * 1024 * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_reply_can_have_an_exact_size() {
    for size in [100, 64 * 1024, 64 * 1024 + 1] {
        let line = call([Step::ReplyOfSize(size)]).await.next_line().await;
        let line = line.unwrap();
        assert_eq!(line.len(), size);
        let reply: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert!(reply["result"]["content"][0]["text"].is_string());
    }
}

#[tokio::test(start_paused = true)]
async fn progress_bears_the_token_of_the_request() {
    let progress = Step::Progress {
        progress: json!(0.5),
        total: Some(json!(2)),
        message: Some("half".to_owned()),
    };
    let script = Script::legacy().on(
        "tools/call",
        [progress, Step::progress(1), Step::text("done")],
    );
    let mut wire = open(&MemoryServer::new(script));
    let params = json!({"name": "any", "_meta": {"progressToken": 9}});
    wire.request("tools/call", params).await;
    let first = json!({"progressToken": 9, "progress": 0.5, "total": 2, "message": "half"});
    let notification =
        |params| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    assert_eq!(wire.next().await, notification(first));
    let second = json!({"progressToken": 9, "progress": 1});
    assert_eq!(wire.next().await, notification(second));
    wire.next().await;
    // Without a token there is no progress.
    assert_eq!(wire.call_text("any", json!({})).await, "done");
}

#[tokio::test(start_paused = true)]
async fn progress_can_go_on_for_ever_without_an_answer() {
    let steps = [Step::forever([Step::DelayMs(100), Step::progress(1)])];
    let script = Script::legacy().on("tools/call", steps);
    let mut wire = open(&MemoryServer::new(script));
    let before = Instant::now();
    let params = json!({"name": "any", "_meta": {"progressToken": 9}});
    let id = wire.request("tools/call", params).await;
    for _ in 0..100 {
        assert_eq!(wire.next().await["method"], "notifications/progress");
    }
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    wire.notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    wire.assert_next_is_pong().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_server_need_not_wait_for_its_answer() {
    let request =
        serde_json::from_value(json!({"request": {"id": 1.5, "method": "sampling/createMessage"}}));
    let mut wire = call([request.unwrap(), Step::ReplyWithResponse]).await;
    let expected = json!({"jsonrpc": "2.0", "id": 1.5, "method": "sampling/createMessage"});
    assert_eq!(wire.next().await, expected);
    let reply = wire.next().await;
    assert_eq!(reply["result"]["content"][0]["text"], "null");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_is_never_answered_and_hinders_no_other() {
    let mut wire = call([Step::Hang, Step::text("never")]).await;
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    wire.assert_next_is_pong().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_comes_although_it_was_cancelled() {
    let script = Script::legacy()
        .on("tools/call", [Step::DelayMs(1000), Step::text("late")])
        .on("notifications/cancelled", [Step::notify("heard")]);
    let mut wire = open(&MemoryServer::new(script));
    let id = wire.call("any").await;
    wire.notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    assert_eq!(wire.next().await["method"], "heard");
    assert_eq!(wire.next().await["id"], id);
}

#[tokio::test(start_paused = true)]
async fn the_most_specific_key_wins() {
    let script = Script::legacy()
        .on("tools/call a", [Step::text("a")])
        .on("tools/call", [Step::text("any tool")])
        .on("ping", [Step::Default])
        .on("*", [Step::text("anything")]);
    let mut wire = open(&MemoryServer::new(script));
    assert_eq!(wire.call_text("a", json!({})).await, "a");
    assert_eq!(wire.call_text("b", json!({})).await, "any tool");
    wire.assert_next_is_pong().await;
    let result = wire.ask("initialize", json!({})).await;
    assert_eq!(result["content"][0]["text"], "anything");
}

#[tokio::test(start_paused = true)]
async fn steps_can_wait_for_the_nth_time_or_stop_after_it() {
    let script = Script::legacy().on(
        "tools/call",
        [
            Step::until(1, [Step::notify("first")]),
            Step::after(3, [Step::Abort]),
            Step::text("fine"),
        ],
    );
    let mut wire = open(&MemoryServer::new(script));
    wire.call("any").await;
    assert_eq!(wire.next().await["method"], "first");
    wire.next().await;
    assert_eq!(wire.call_text("any", json!({})).await, "fine");
    wire.call("any").await;
    assert_eq!(wire.rest().await, b"");
}

#[tokio::test(start_paused = true)]
async fn steps_can_run_once_for_all_connections() {
    let sandbox = Sandbox::new();
    let crash = Step::once(sandbox.root().join("crashed"), [Step::Exit(1)]);
    let server = MemoryServer::new(Script::legacy().on_start([crash]));
    assert_eq!(open(&server).rest().await, b"");
    open(&server).assert_next_is_pong().await;
}

#[tokio::test(start_paused = true)]
async fn background_steps_run_beside_the_server() {
    let ticks = Step::background([Step::repeat(3, [Step::DelayMs(1000), Step::notify("tick")])]);
    let mut wire = open(&MemoryServer::new(Script::legacy().on_start([ticks])));
    wire.assert_next_is_pong().await;
    for _ in 0..3 {
        assert_eq!(wire.next().await["method"], "tick");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    wire.assert_next_is_pong().await;
}

#[tokio::test(start_paused = true)]
async fn start_steps_come_before_anything_is_read() {
    let script = Script::legacy().on_start([Step::raw("ListenOptions…"), Step::DelayMs(1000)]);
    let server = MemoryServer::new(script);
    let mut wire = open(&server);
    wire.request("ping", json!({})).await;
    assert_eq!(wire.next_line().await.unwrap(), "ListenOptions…".as_bytes());
    assert_eq!(server.received().len(), 0);
    assert_eq!(wire.next().await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_reads_fills_the_pipe() {
    let mut wire = open(&MemoryServer::new(Script::legacy().on_start([Step::Hang])));
    let line = "x".repeat(1024 * 1024);
    let sent = tokio::time::timeout(Duration::from_secs(60), wire.send_line(&line)).await;
    assert!(sent.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_can_close_either_stream_and_live_on() {
    let steps = [Step::text("last words"), Step::CloseStdout];
    let server = MemoryServer::new(Script::legacy().on("tools/call", steps));
    let mut wire = open(&server);
    assert_eq!(wire.call_text("any", json!({})).await, "last words");
    assert_eq!(wire.rest().await, b"");
    wire.request("ping", json!({})).await;
    server.wait_received("ping", 1).await;
    assert_eq!(server.ended(), []);

    let steps = [Step::CloseStdin, Step::DelayMs(1000), Step::text("deaf")];
    let server = MemoryServer::new(Script::legacy().on("tools/call", steps));
    let mut wire = open(&server);
    wire.call("any").await;
    assert_eq!(wire.next().await["id"], 1);
    assert!(wire.send_line("{}").await.is_err());
    assert_eq!(server.ended(), []);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_written_and_messages_are_recorded() {
    let sandbox = Sandbox::new();
    let (path, record) = (
        sandbox.project().join("loot"),
        sandbox.project().join("lines"),
    );
    let write = Step::WriteFile {
        path,
        text: "stolen".to_owned(),
    };
    let script = Script::legacy()
        .record(&record)
        .on("tools/call", [write, Step::Default]);
    let mut wire = open(&MemoryServer::new(script));
    wire.call_text("echo", json!({"message": "x"})).await;
    assert_eq!(sandbox.read("loot"), "stolen");
    let expected = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"message": "x"}},
    });
    assert_eq!(switchboard_testkit::read_record(&record), [expected]);
}
