//! Requests of the CLI, valid and invalid, and their cancellation.

use std::time::Duration;

use serde_json::json;
use switchboard::{InProcessServer, ToolResult};
use switchboard_claude::{HookEvent, HookMatcher, HookOutput, Hooks, PermissionResult};
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};
use tokio::sync::mpsc;

use crate::harness::{CALL_ID, Harness, call, connect, in_time, receive_result, report, to_server};

#[tokio::test]
async fn unknown_request_is_refused() {
    let steps = [
        FakeStep::Request(json!({"subtype": "sing", "song": 7})),
        FakeStep::ReportResponse,
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let allow = |_| async { PermissionResult::allow() };
    let answer = report(harness.options().can_use_tool(allow)).await;
    assert_eq!(answer["subtype"], "error");
    assert_eq!(answer["error"], "Unsupported control request subtype: sing");
    harness.close().await;
}

#[tokio::test]
async fn unknown_server_error_has_message_id() {
    let message = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    let steps = [
        FakeStep::Request(to_server("unknown", &message)),
        FakeStep::ReportResponse,
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let server = InProcessServer::new("it", "1.0");
    let answer = report(harness.options().sdk_server("it", server)).await;
    let response = &answer["response"]["mcp_response"];
    assert_eq!(response["id"], 3, "{answer}");
    assert_eq!(response["error"]["code"], -32601, "{answer}");
    harness.close().await;
}

#[tokio::test]
async fn notifications_and_responses_are_acknowledged() {
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
    ] {
        let steps = [
            FakeStep::Request(to_server("it", &message)),
            FakeStep::ReportResponse,
        ];
        let harness = Harness::new(FakeClaude::during_turn(steps));
        let server = InProcessServer::new("it", "1.0");
        let answer = report(harness.options().sdk_server("it", server)).await;
        assert_eq!(answer["subtype"], "success", "{message}");
        assert_eq!(answer["response"]["mcp_response"]["result"], json!({}));
        harness.close().await;
    }
}

#[tokio::test]
async fn requests_before_initialize_response_are_answered() {
    let steps = [
        FakeStep::await_request("initialize"),
        FakeStep::Request(to_server(
            "it",
            &json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}),
        )),
        FakeStep::RespondDefault,
        FakeStep::AwaitUser,
        FakeStep::ReportResponse,
    ];
    let harness = Harness::new(FakeClaude::new(steps));
    let server = InProcessServer::new("it", "1.0");
    let answer = report(harness.options().sdk_server("it", server)).await;
    assert_eq!(answer["response"]["mcp_response"]["id"], 0, "{answer}");
    harness.close().await;
}

/// Sends `"dropped"` when it is dropped. A handler holds it, so that the test notices when the
/// handler is cancelled.
struct DropReporter(mpsc::Sender<&'static str>);

impl Drop for DropReporter {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

/// A server with a tool that never returns. The tool sends `"started"` when a call starts and
/// `"dropped"` when the call is cancelled.
fn endless(events: mpsc::Sender<&'static str>) -> InProcessServer {
    let wait = move || {
        let events = events.clone();
        async move {
            let _reporter = DropReporter(events.clone());
            let _ = events.try_send("started");
            std::future::pending::<ToolResult<String>>().await
        }
    };
    InProcessServer::new("it", "1.0").tool("wait", "Never returns", wait)
}

#[tokio::test]
async fn hanging_tool_ends_at_call_timeout() {
    let steps = [FakeStep::Request(call("wait")), FakeStep::ReportResponse];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (events, mut received) = mpsc::channel(4);
    let options = harness.options().sdk_server("it", endless(events));
    let answer = report(options.call_timeout(Duration::from_millis(200))).await;
    let response = &answer["response"]["mcp_response"];
    assert_eq!(response["id"], CALL_ID, "{answer}");
    assert!(response.to_string().contains("200ms"), "{answer}");
    assert_eq!(in_time(received.recv()).await, Some("started"));
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
    harness.close().await;
}

#[tokio::test]
async fn cancelled_call_is_dropped() {
    let params = json!({"requestId": CALL_ID, "reason": "AbortError"});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let steps = [
        FakeStep::StartRequest(call("wait")),
        FakeStep::await_request("mcp_status"),
        FakeStep::RespondDefault,
        FakeStep::Request(to_server("it", &cancelled)),
        FakeStep::ReportResponse,
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (events, mut received) = mpsc::channel(4);
    let client = connect(harness.options().sdk_server("it", endless(events))).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    assert_eq!(in_time(received.recv()).await, Some("started"));
    // The fake CLI cancels the tool call after it has received this request.
    in_time(client.mcp_status()).await.unwrap();
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
    let answer = receive_result(&client).await;
    assert!(answer.contains("success"), "{answer}");
    in_time(client.close()).await;
    harness.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn immediate_cancellation_is_never_missed() {
    const COUNT: u64 = 200;
    let message = |id: u64| {
        let params = json!({"name": "wait", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let params = json!({"requestId": id});
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        [
            FakeStep::StartRequest(to_server("it", &call)),
            FakeStep::Request(to_server("it", &cancelled)),
        ]
    };
    let steps = (0..COUNT).flat_map(message);
    let harness = Harness::new(FakeClaude::during_turn(
        steps.chain([FakeStep::ReportResponse]),
    ));
    let (events, mut received) = mpsc::channel(1024);
    let client = connect(harness.options().sdk_server("it", endless(events))).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    receive_result(&client).await;
    // At this point, this crate has acknowledged every cancellation. If it had missed one, the
    // cancelled call would start during the following requests and never be dropped.
    for _ in 0..20 {
        in_time(client.mcp_status()).await.unwrap();
    }
    let (mut started, mut dropped) = (0, 0);
    while let Ok(event) = received.try_recv() {
        match event {
            "started" => started += 1,
            _ => dropped += 1,
        }
    }
    assert_eq!(started, dropped);
    in_time(client.close()).await;
    harness.close().await;
}

#[tokio::test]
async fn cancelled_permission_request_is_not_answered() {
    let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    let steps = [
        FakeStep::StartRequest(request),
        FakeStep::await_request("mcp_status"),
        FakeStep::RespondDefault,
        FakeStep::CancelRequest,
        FakeStep::Request(json!({"subtype": "sing"})),
        FakeStep::ReportResponse,
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (events, mut received) = mpsc::channel(4);
    let wait = move |_| {
        let events = events.clone();
        async move {
            let _reporter = DropReporter(events.clone());
            let _ = events.try_send("started");
            std::future::pending::<PermissionResult>().await
        }
    };
    let client = connect(harness.options().can_use_tool(wait)).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    assert_eq!(in_time(received.recv()).await, Some("started"));
    // The fake CLI cancels its permission request after it has received this request.
    in_time(client.mcp_status()).await.unwrap();
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
    receive_result(&client).await;
    in_time(client.close()).await;
    let record = harness.record();
    let responses = record
        .iter()
        .filter_map(|line| line["response"]["request_id"].as_str());
    assert_eq!(responses.collect::<Vec<_>>(), ["ask-2"], "{record:#?}");
    harness.close().await;
}

async fn panicking_permission() -> PermissionResult {
    panic!("callback failed")
}

async fn panicking_hook() -> HookOutput {
    panic!("callback failed")
}

#[tokio::test]
async fn panicking_pre_tool_hook_denies() {
    let input = json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}});
    let callback = json!({"subtype": "hook_callback", "callback_id": "hook_0", "input": input});
    let harness = Harness::new(FakeClaude::during_turn([
        FakeStep::Request(callback),
        FakeStep::ReportResponse,
    ]));
    let hooks = Hooks::new().on(HookEvent::PreToolUse, HookMatcher::all(), |_| {
        panicking_hook()
    });
    let answer = report(harness.options().hooks(hooks)).await;
    let decision = &answer["response"]["hookSpecificOutput"]["permissionDecision"];
    assert_eq!(decision, "deny", "{answer}");
    harness.close().await;
}

#[tokio::test]
async fn panicking_permission_callback_denies() {
    let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    let steps = [FakeStep::Request(request), FakeStep::ReportResponse];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let answer = report(harness.options().can_use_tool(|_| panicking_permission())).await;
    assert_eq!(answer["response"]["behavior"], "deny", "{answer}");
    harness.close().await;
}

#[tokio::test]
async fn server_notification_reaches_the_cli() {
    let steps = [
        FakeStep::await_request("mcp_message"),
        FakeStep::RespondEmpty,
        FakeStep::EndTurn("heard".to_owned()),
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let server = InProcessServer::new("it", "1.0").tool("t", "A tool", || async { Ok("t") });
    let changing = server.clone();
    let options = harness.options().sdk_server("it", server);
    let client = connect(options).await.unwrap();
    client.send("hello").await.unwrap();
    assert!(changing.remove_tool("t"));
    let first = in_time(client.receive()).await.unwrap().unwrap();
    assert!(first.as_result().is_none());
    let result = in_time(client.receive()).await.unwrap().unwrap();
    let text = result.as_result().unwrap().result.clone();
    assert_eq!(text.as_deref(), Some("heard"));
    in_time(client.close()).await;
    let record = harness.record();
    let notification = record
        .iter()
        .find(|line| line["request"]["subtype"] == "mcp_message");
    let notification = &notification.unwrap()["request"];
    assert_eq!(notification["server_name"], "it");
    assert_eq!(
        notification["message"]["method"],
        "notifications/tools/list_changed"
    );
    harness.close().await;
}

#[tokio::test]
async fn refused_request_reports_the_message() {
    let steps = [
        FakeStep::await_request("initialize"),
        FakeStep::RespondDefault,
        FakeStep::await_request("set_model"),
        FakeStep::RespondError("no such model: tiny".to_owned()),
    ];
    let harness = Harness::new(FakeClaude::new(steps));
    let client = connect(harness.options()).await.unwrap();
    let error = in_time(client.set_model(Some("tiny"))).await.unwrap_err();
    assert!(error.to_string().contains("no such model: tiny"), "{error}");
    in_time(client.close()).await;
    harness.close().await;
}
