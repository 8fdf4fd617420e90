//! Very much at once.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard::inprocess::InProcessTool;
use switchboard::{InProcessServer, ToolResult};
use switchboard_claude::Message;
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};

use crate::scene::{Scene, ask, call, connect, report, soon, to_server};

#[derive(Deserialize, JsonSchema)]
struct Numbered {
    number: u64,
}

/// Comes back sooner or later, so that answers are not in the order of the calls.
async fn echo(call: Numbered) -> ToolResult<String> {
    for _ in 0..call.number % 7 {
        tokio::task::yield_now().await;
    }
    Ok(call.number.to_string())
}

fn server() -> InProcessServer {
    let wait = || std::future::pending::<ToolResult<String>>();
    InProcessServer::new("it", "1.0")
        .with(InProcessTool::new("echo", "Says its number", echo))
        .tool("wait", "Never comes back", wait)
}

fn crowd(count: u64) -> FakeStep {
    FakeStep::ConcurrentCalls {
        server: "it".to_owned(),
        tool: "echo".to_owned(),
        count,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_are_answered_each_to_its_own_id() {
    let scene = Scene::new(FakeClaude::during_turn([
        crowd(10_000),
        FakeStep::ReportResponse,
    ]));
    let answer = report(scene.options().sdk_server("it", server())).await;
    let all = json!({"answered": 10_000, "own": 10_000, "left": 0});
    assert_eq!(answer, all);
    scene.close().await;
}

#[tokio::test]
async fn one_that_never_comes_back_holds_up_nobody() {
    let acts = [
        FakeStep::StartRequest(call("wait")),
        crowd(200),
        FakeStep::ReportResponse,
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let answer = report(scene.options().sdk_server("it", server())).await;
    assert_eq!(answer["own"], 200, "{answer}");
    scene.close().await;
}

#[tokio::test]
async fn requests_are_answered_while_nobody_reads_messages() {
    let message = json!({"type": "filler", "text": "x".repeat(1000)});
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let acts = [
        FakeStep::Flood {
            message,
            times: 5000,
        },
        FakeStep::Request(to_server("it", &ping)),
        FakeStep::ReportResponse,
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let client = connect(scene.options().sdk_server("it", server())).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    // Answered by the stand-in when its question was answered: nothing was read until then.
    soon(client.mcp_status()).await.unwrap();
    let mut count = 0;
    let result = loop {
        let message = soon(client.receive()).await.unwrap().unwrap();
        if let Message::Result(result) = message {
            break result;
        }
        count += 1;
    };
    assert_eq!(count, 5001);
    assert!(result.result.unwrap().contains("mcp_response"));
    soon(client.close()).await;
    scene.close().await;
}

#[tokio::test]
async fn a_flood_is_read_to_its_end() {
    let acts = [
        FakeStep::Flood {
            message: json!({"type": "filler"}),
            times: 100_000,
        },
        FakeStep::EndTurn("dry".to_owned()),
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (messages, error) = ask(scene.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(messages.len(), 100_002);
    scene.close().await;
}
