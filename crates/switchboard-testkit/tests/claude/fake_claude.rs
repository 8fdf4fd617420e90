//! The messages of the fake CLI, as its host receives them.

use std::process::Stdio;

use serde_json::{Value, json};
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};

use crate::json_lines::JsonLines;

fn is_result(message: &Value) -> bool {
    message["type"] == "result"
}

/// Responds to a tool call with the argument `number` as text.
fn number(request: &Value) -> Value {
    let message = &request["message"];
    let number = message["params"]["arguments"]["number"].to_string();
    let result = json!({"content": [{"type": "text", "text": number}]});
    json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}})
}

#[tokio::test]
async fn concurrent_calls_are_checked_one_by_one() {
    let calls = FakeStep::ConcurrentCalls {
        server: "s".to_owned(),
        tool: "t".to_owned(),
        count: 500,
    };
    let mut cli =
        JsonLines::start(FakeClaude::new([calls.clone(), FakeStep::ReportResponse]).command());
    let report = cli.until(number, is_result).await;
    let all = json!({"answered": 500, "own": 500, "left": 0});
    assert_eq!(report["result"], all.to_string());
    cli.finish().await;

    // A response with a wrong id does not count as an answer to its call (`own`).
    let mut cli = JsonLines::start(FakeClaude::new([calls, FakeStep::ReportResponse]).command());
    let mut is_first = true;
    let mixed = |request: &Value| {
        if std::mem::take(&mut is_first) {
            return json!({"mcp_response": {"jsonrpc": "2.0", "id": 500, "result": {}}});
        }
        number(request)
    };
    let report = cli.until(mixed, is_result).await;
    assert!(report["result"].as_str().unwrap().contains(r#""own":499"#));
}

#[tokio::test]
async fn exit_steps_end_the_process() {
    let table = [
        (FakeStep::Exit(3), Some(3)),
        (FakeStep::KillSelf(9), None),
        (FakeStep::Silence, Some(0)),
    ];
    for (step, code) in table {
        let mut command = FakeClaude::new([step.clone()]).command();
        let status = command.stdin(Stdio::null()).output().unwrap().status;
        assert_eq!(status.code(), code, "{step:?}");
    }
}

#[tokio::test]
async fn long_line_has_exact_size() {
    let script = FakeClaude::new([
        FakeStep::LongLine(100_000),
        FakeStep::raw("{no json"),
        FakeStep::Exit(0),
    ]);
    let mut cli = JsonLines::start(script.command());
    assert_eq!(cli.next_line().await.unwrap().len(), 100_000);
    assert_eq!(cli.next_line().await.unwrap(), "{no json");
}
