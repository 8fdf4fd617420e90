//! Output of the CLI that is not a message, is incomplete or invalid, is too long, or has an
//! unknown type.

use serde_json::json;
use switchboard_claude::Message;
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};

use crate::harness::{Harness, run_query};

fn end() -> FakeStep {
    FakeStep::EndTurn("the end".to_owned())
}

#[tokio::test]
async fn stray_lines_are_skipped() {
    let stray = ["", "[SandboxDebug] starting", "   ", "warning: old node"].map(FakeStep::raw);
    let script = FakeClaude::during_turn(stray.into_iter().chain([end()]));
    let harness = Harness::new(script);
    let (messages, error) = run_query(harness.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(messages.len(), 2, "{messages:#?}");
    harness.close().await;
}

#[tokio::test]
async fn invalid_json_line_is_an_error() {
    let steps = [
        FakeStep::stderr("careful"),
        FakeStep::raw(r#"{"type": "assist"#),
        end(),
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (_, error) = run_query(harness.options()).await;
    let text = error.expect("invalid JSON is accepted").to_string();
    assert!(text.contains(r#"{"type": "assist"#), "{text}");
    harness.close().await;
}

#[tokio::test]
async fn partial_last_line_is_an_error() {
    let steps = [
        FakeStep::Bytes(r#"{"type":"resu"#.to_owned()),
        FakeStep::Exit(0),
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (_, error) = run_query(harness.options()).await;
    assert!(error.is_some());
    harness.close().await;
}

#[tokio::test]
async fn missing_members_are_not_errors() {
    let sparse = [
        json!({"type": "assistant"}),
        json!({"type": "assistant", "message": {"content": "text"}}),
        json!({"type": "assistant", "message": {"content": [{"type": "tool_use"}, 7]}}),
        json!({"type": "user", "message": null}),
        json!({"type": "system"}),
        json!({"type": "system", "subtype": "init", "tools": "many"}),
        json!({"type": "stream_event"}),
        json!({"no": "type"}),
        json!({"type": 7}),
    ];
    let without_message = [
        json!({"type": "control_request"}),
        json!({"type": "control_request", "request": {"subtype": "can_use_tool"}}),
        json!({"type": "control_request", "request_id": "odd"}),
        json!({"type": "control_request", "request_id": "odd-2", "request": {"subtype": "mcp_message"}}),
        json!({"type": "control_response"}),
        json!({"type": "control_response", "response": {"request_id": "unknown"}}),
        json!({"type": "control_cancel_request"}),
        json!({"type": "control_cancel_request", "request_id": "unknown"}),
        json!({"type": "keep_alive"}),
    ];
    let count = sparse.len();
    let steps = without_message
        .into_iter()
        .chain(sparse)
        .map(FakeStep::Send);
    let last = FakeStep::Send(json!({"type": "result"}));
    let idle = json!({"type": "system", "subtype": "session_state_changed", "state": "idle", "sdk_host_only": true});
    let harness = Harness::new(FakeClaude::during_turn(
        steps.chain([last, FakeStep::Send(idle)]),
    ));
    let (messages, error) = run_query(harness.options()).await;
    assert!(error.is_none(), "{error:?}");
    let received: Vec<_> = messages
        .iter()
        .map(|message| message.raw().as_str().to_owned())
        .collect();
    // Besides the `count` messages, a `system/init` message arrives first and the result message
    // last.
    assert_eq!(received.len(), count + 2, "{received:#?}");
    harness.close().await;
}

#[tokio::test]
async fn unknown_messages_are_unchanged() {
    let new_type = json!({"type": "brand_new", "depth": {"of": [1, 2]}});
    let system = json!({"type": "system", "subtype": "brand_new", "x": 1});
    let steps = [
        FakeStep::Send(new_type.clone()),
        FakeStep::Send(system),
        end(),
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (messages, error) = run_query(harness.options()).await;
    assert!(error.is_none(), "{error:?}");
    let Message::Unknown(unknown) = &messages[1] else {
        panic!("{messages:#?}");
    };
    assert_eq!(unknown.kind, "brand_new");
    let raw: serde_json::Value = serde_json::from_str(unknown.raw.as_str()).unwrap();
    assert_eq!(raw, new_type);
    assert!(matches!(&messages[2], Message::System(system) if system.subtype == "brand_new"));
    harness.close().await;
}

#[tokio::test]
async fn only_too_long_lines_are_errors() {
    const SIZE: usize = 5_000_000;
    let script = || FakeClaude::during_turn([FakeStep::LongLine(SIZE), end()]);
    let harness = Harness::new(script());
    let (messages, error) = run_query(harness.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(messages[1].raw().as_str().len(), SIZE);
    harness.close().await;

    let harness = Harness::new(script());
    let (_, error) = run_query(harness.options().max_buffer_size(SIZE - 1)).await;
    let text = error.expect("the line is accepted").to_string();
    assert!(text.contains("max_buffer_size"), "{text}");
    harness.close().await;
}
