//! What the CLI asks of us, well or badly.

use std::time::Duration;

use serde_json::json;
use switchboard::{InProcessServer, ToolResult};
use switchboard_claude::{HookEvent, HookMatcher, HookOutput, Hooks, PermissionResult};
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};
use tokio::sync::mpsc;

use crate::scene::{CALL_ID, Scene, call, connect, receive_result, report, soon, to_server};

#[tokio::test]
async fn an_unknown_request_is_refused() {
    let acts = [
        FakeStep::Request(json!({"subtype": "sing", "song": 7})),
        FakeStep::ReportResponse,
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let allow = |_| async { PermissionResult::allow() };
    let answer = report(scene.options().can_use_tool(allow)).await;
    assert_eq!(answer["subtype"], "error");
    assert_eq!(answer["error"], "Unsupported control request subtype: sing");
    scene.close().await;
}

#[tokio::test]
async fn an_unknown_server_is_an_error_with_the_id_of_the_message() {
    let message = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    let acts = [
        FakeStep::Request(to_server("nobody", &message)),
        FakeStep::ReportResponse,
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let server = InProcessServer::new("it", "1.0");
    let answer = report(scene.options().sdk_server("it", server)).await;
    let response = &answer["response"]["mcp_response"];
    assert_eq!(response["id"], 3, "{answer}");
    assert_eq!(response["error"]["code"], -32601, "{answer}");
    scene.close().await;
}

#[tokio::test]
async fn notifications_and_answers_are_acknowledged() {
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
    ] {
        let acts = [
            FakeStep::Request(to_server("it", &message)),
            FakeStep::ReportResponse,
        ];
        let scene = Scene::new(FakeClaude::during_turn(acts));
        let server = InProcessServer::new("it", "1.0");
        let answer = report(scene.options().sdk_server("it", server)).await;
        assert_eq!(answer["subtype"], "success", "{message}");
        assert_eq!(answer["response"]["mcp_response"]["result"], json!({}));
        scene.close().await;
    }
}

#[tokio::test]
async fn what_we_are_asked_is_answered_while_we_wait_for_the_first_answer() {
    let acts = [
        FakeStep::await_request("initialize"),
        FakeStep::Request(to_server(
            "it",
            &json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}),
        )),
        FakeStep::AnswerDefault,
        FakeStep::AwaitUser,
        FakeStep::ReportResponse,
    ];
    let scene = Scene::new(FakeClaude::new(acts));
    let server = InProcessServer::new("it", "1.0");
    let answer = report(scene.options().sdk_server("it", server)).await;
    assert_eq!(answer["response"]["mcp_response"]["id"], 0, "{answer}");
    scene.close().await;
}

/// Says when it is dropped.
struct Gone(mpsc::Sender<&'static str>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

/// A server with a tool that never comes back, and tells when it begins and when it is dropped.
fn endless(told: mpsc::Sender<&'static str>) -> InProcessServer {
    let wait = move || {
        let told = told.clone();
        async move {
            let _gone = Gone(told.clone());
            let _ = told.try_send("begun");
            std::future::pending::<ToolResult<String>>().await
        }
    };
    InProcessServer::new("it", "1.0").tool("wait", "Never comes back", wait)
}

#[tokio::test]
async fn a_tool_that_never_comes_back_ends_at_its_deadline() {
    let acts = [FakeStep::Request(call("wait")), FakeStep::ReportResponse];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (told, mut tells) = mpsc::channel(4);
    let options = scene.options().sdk_server("it", endless(told));
    let answer = report(options.call_timeout(Duration::from_millis(200))).await;
    let response = &answer["response"]["mcp_response"];
    assert_eq!(response["id"], CALL_ID, "{answer}");
    assert!(response.to_string().contains("200ms"), "{answer}");
    assert_eq!(soon(tells.recv()).await, Some("begun"));
    assert_eq!(soon(tells.recv()).await, Some("dropped"));
    scene.close().await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_is_dropped() {
    let params = json!({"requestId": CALL_ID, "reason": "AbortError"});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let acts = [
        FakeStep::StartRequest(call("wait")),
        FakeStep::await_request("mcp_status"),
        FakeStep::AnswerDefault,
        FakeStep::Request(to_server("it", &cancelled)),
        FakeStep::ReportResponse,
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (told, mut tells) = mpsc::channel(4);
    let client = connect(scene.options().sdk_server("it", endless(told))).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    assert_eq!(soon(tells.recv()).await, Some("begun"));
    // Only now is it cancelled.
    soon(client.mcp_status()).await.unwrap();
    assert_eq!(soon(tells.recv()).await, Some("dropped"));
    let answer = receive_result(&client).await;
    assert!(answer.contains("success"), "{answer}");
    soon(client.close()).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_cancelled_however_soon_that_comes() {
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
    let acts = (0..COUNT).flat_map(message);
    let scene = Scene::new(FakeClaude::during_turn(
        acts.chain([FakeStep::ReportResponse]),
    ));
    let (told, mut tells) = mpsc::channel(1024);
    let client = connect(scene.options().sdk_server("it", endless(told))).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    receive_result(&client).await;
    // Every cancellation was acknowledged. A call that came too late for its own would begin by now.
    for _ in 0..20 {
        soon(client.mcp_status()).await.unwrap();
    }
    let (mut begun, mut dropped) = (0, 0);
    while let Ok(told) = tells.try_recv() {
        match told {
            "begun" => begun += 1,
            _ => dropped += 1,
        }
    }
    assert_eq!(begun, dropped);
    soon(client.close()).await;
    scene.close().await;
}

#[tokio::test]
async fn a_question_that_is_taken_back_is_dropped_and_not_answered() {
    let question = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    let acts = [
        FakeStep::StartRequest(question),
        FakeStep::await_request("mcp_status"),
        FakeStep::AnswerDefault,
        FakeStep::CancelRequest,
        FakeStep::Request(json!({"subtype": "sing"})),
        FakeStep::ReportResponse,
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (told, mut tells) = mpsc::channel(4);
    let wait = move |_| {
        let told = told.clone();
        async move {
            let _gone = Gone(told.clone());
            let _ = told.try_send("begun");
            std::future::pending::<PermissionResult>().await
        }
    };
    let client = connect(scene.options().can_use_tool(wait)).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    assert_eq!(soon(tells.recv()).await, Some("begun"));
    // Only now is it taken back.
    soon(client.mcp_status()).await.unwrap();
    assert_eq!(soon(tells.recv()).await, Some("dropped"));
    receive_result(&client).await;
    soon(client.close()).await;
    let record = scene.record();
    let answered = record
        .iter()
        .filter_map(|line| line["response"]["request_id"].as_str());
    assert_eq!(answered.collect::<Vec<_>>(), ["ask-2"], "{record:#?}");
    scene.close().await;
}

async fn panic() -> PermissionResult {
    panic!("out of tea")
}

async fn no_hook() -> HookOutput {
    panic!("out of tea")
}

#[tokio::test]
async fn a_hook_before_the_use_of_a_tool_that_panics_has_said_no() {
    let input = json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}});
    let called = json!({"subtype": "hook_callback", "callback_id": "hook_0", "input": input});
    let scene = Scene::new(FakeClaude::during_turn([
        FakeStep::Request(called),
        FakeStep::ReportResponse,
    ]));
    let hooks = Hooks::new().on(HookEvent::PreToolUse, HookMatcher::all(), |_| no_hook());
    let answer = report(scene.options().hooks(hooks)).await;
    let decision = &answer["response"]["hookSpecificOutput"]["permissionDecision"];
    assert_eq!(decision, "deny", "{answer}");
    scene.close().await;
}

#[tokio::test]
async fn a_callback_that_panics_has_said_no() {
    let question = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    let acts = [FakeStep::Request(question), FakeStep::ReportResponse];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let answer = report(scene.options().can_use_tool(|_| panic())).await;
    assert_eq!(answer["response"]["behavior"], "deny", "{answer}");
    scene.close().await;
}

#[tokio::test]
async fn what_our_own_server_says_by_itself_reaches_the_cli() {
    let acts = [
        FakeStep::await_request("mcp_message"),
        FakeStep::AnswerEmpty,
        FakeStep::EndTurn("heard".to_owned()),
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let server = InProcessServer::new("it", "1.0").tool("t", "A tool", || async { Ok("t") });
    let growing = server.clone();
    let options = scene.options().sdk_server("it", server);
    let client = connect(options).await.unwrap();
    client.send("hello").await.unwrap();
    assert!(growing.remove_tool("t"));
    let first = soon(client.receive()).await.unwrap().unwrap();
    assert!(first.as_result().is_none());
    let result = soon(client.receive()).await.unwrap().unwrap();
    let text = result.as_result().unwrap().result.clone();
    assert_eq!(text.as_deref(), Some("heard"));
    soon(client.close()).await;
    let record = scene.record();
    let notice = record
        .iter()
        .find(|line| line["request"]["subtype"] == "mcp_message");
    let notice = &notice.unwrap()["request"];
    assert_eq!(notice["server_name"], "it");
    assert_eq!(
        notice["message"]["method"],
        "notifications/tools/list_changed"
    );
    scene.close().await;
}

#[tokio::test]
async fn a_refusal_of_ours_is_told_by_its_words() {
    let acts = [
        FakeStep::await_request("initialize"),
        FakeStep::AnswerDefault,
        FakeStep::await_request("set_model"),
        FakeStep::AnswerError("no such model: tiny".to_owned()),
    ];
    let scene = Scene::new(FakeClaude::new(acts));
    let client = connect(scene.options()).await.unwrap();
    let error = soon(client.set_model(Some("tiny"))).await.unwrap_err();
    assert!(error.to_string().contains("no such model: tiny"), "{error}");
    soon(client.close()).await;
    scene.close().await;
}
