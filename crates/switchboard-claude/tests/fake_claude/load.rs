//! Many concurrent calls, and many messages.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard::in_process::InProcessTool;
use switchboard::{InProcessServer, ToolResult};
use switchboard_claude::Message;
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};

use crate::harness::{Harness, call, connect, in_time, report, run_query, to_server};

#[derive(Deserialize, JsonSchema)]
struct EchoArguments {
    number: u64,
}

/// Yields up to six times, depending on the number in the call, so that the order of the responses
/// differs from the order of the calls.
async fn echo(call: EchoArguments) -> ToolResult<String> {
    for _ in 0..call.number % 7 {
        tokio::task::yield_now().await;
    }
    Ok(call.number.to_string())
}

fn server() -> InProcessServer {
    let wait = || std::future::pending::<ToolResult<String>>();
    InProcessServer::new("it", "1.0")
        .with_tool(InProcessTool::new("echo", "Returns its number", echo))
        .tool("wait", "Never returns", wait)
}

fn concurrent_calls(count: u64) -> FakeStep {
    FakeStep::ConcurrentCalls {
        server: "it".to_owned(),
        tool: "echo".to_owned(),
        count,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_get_their_responses() {
    let harness = Harness::new(FakeClaude::during_turn([
        concurrent_calls(10_000),
        FakeStep::ReportResponse,
    ]));
    let answer = report(harness.options().sdk_server("it", server())).await;
    let all = json!({"answered": 10_000, "own": 10_000, "left": 0});
    assert_eq!(answer, all);
    harness.close().await;
}

#[tokio::test]
async fn hanging_call_blocks_no_other() {
    let steps = [
        FakeStep::StartRequest(call("wait")),
        concurrent_calls(200),
        FakeStep::ReportResponse,
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let answer = report(harness.options().sdk_server("it", server())).await;
    assert_eq!(answer["own"], 200, "{answer}");
    harness.close().await;
}

#[tokio::test]
async fn requests_are_answered_with_messages_unread() {
    let message = json!({"type": "filler", "text": "x".repeat(1000)});
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let steps = [
        FakeStep::Flood {
            message,
            times: 5000,
        },
        FakeStep::Request(to_server("it", &ping)),
        FakeStep::ReportResponse,
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let client = connect(harness.options().sdk_server("it", server())).await;
    let client = client.unwrap();
    client.send("hello").await.unwrap();
    // The fake CLI handles this request only after it has received the response to its own request.
    // That response was therefore sent although no message had been read.
    in_time(client.mcp_status()).await.unwrap();
    let mut count = 0;
    let result = loop {
        let message = in_time(client.receive()).await.unwrap().unwrap();
        if let Message::Result(result) = message {
            break result;
        }
        count += 1;
    };
    assert_eq!(count, 5001);
    assert!(result.result.unwrap().contains("mcp_response"));
    in_time(client.close()).await;
    harness.close().await;
}

#[tokio::test]
async fn message_flood_is_read_completely() {
    let steps = [
        FakeStep::Flood {
            message: json!({"type": "filler"}),
            times: 100_000,
        },
        FakeStep::EndTurn("dry".to_owned()),
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (messages, error) = run_query(harness.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(messages.len(), 100_002);
    harness.close().await;
}
