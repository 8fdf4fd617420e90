//! A CLI that exits unexpectedly, hangs, or does not exit when its input is closed.

use std::time::Duration;

use serde_json::json;
use switchboard_claude::Message;
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};

use crate::harness::{Harness, connect, in_time, run_query};

#[tokio::test]
async fn exit_before_initialize_reports_stderr() {
    let steps = [
        FakeStep::stderr("first line"),
        FakeStep::stderr("out of memory"),
        FakeStep::Exit(3),
    ];
    let harness = Harness::new(FakeClaude::new(steps));
    let error = connect(harness.options()).await.unwrap_err();
    assert_eq!(error.exit_code(), Some(3), "{error:?}");
    assert!(error.stderr().unwrap().contains("first line"), "{error:?}");
    assert!(error.to_string().contains("out of memory"), "{error}");
    harness.close().await;
}

#[tokio::test]
async fn early_result_does_not_hide_exit() {
    let steps = [
        FakeStep::await_request("initialize"),
        FakeStep::Send(
            json!({"type": "result", "subtype": "error_during_execution", "is_error": true}),
        ),
        FakeStep::stderr("no conversation of that name"),
        FakeStep::Exit(1),
    ];
    let harness = Harness::new(FakeClaude::new(steps));
    let (_, error) = run_query(harness.options().resume("nonsense")).await;
    let error = error.expect("no error");
    assert_eq!(error.exit_code(), Some(1), "{error}");
    assert!(error.to_string().contains("no conversation"), "{error}");
    harness.close().await;
}

#[tokio::test]
async fn exit_during_turn_is_an_error() {
    let message =
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "I"}]}});
    for end in [FakeStep::Exit(7), FakeStep::KillSelf(9)] {
        let steps = [
            FakeStep::Send(message.clone()),
            FakeStep::stderr("crashed"),
            end.clone(),
        ];
        let harness = Harness::new(FakeClaude::during_turn(steps));
        let (messages, error) = run_query(harness.options()).await;
        assert_eq!(messages.len(), 2, "{messages:#?}");
        let error = error.expect("no error");
        assert!(error.to_string().contains("crashed"), "{error}");
        let code = (end == FakeStep::Exit(7)).then_some(7);
        assert_eq!(error.exit_code(), code, "{error}");
        harness.close().await;
    }
}

#[tokio::test]
async fn exit_without_result_is_an_error() {
    let harness = Harness::new(FakeClaude::during_turn([FakeStep::Exit(0)]));
    let (messages, error) = run_query(harness.options()).await;
    assert!(messages.iter().all(|message| message.as_result().is_none()));
    assert_eq!(error.expect("no error").exit_code(), Some(0));
    harness.close().await;
}

#[tokio::test]
async fn exit_fails_pending_and_later_requests() {
    let steps = [
        FakeStep::await_request("initialize"),
        FakeStep::RespondDefault,
        FakeStep::await_request("mcp_status"),
        FakeStep::stderr("gone"),
        FakeStep::Exit(9),
    ];
    let harness = Harness::new(FakeClaude::new(steps));
    let client = connect(harness.options()).await.unwrap();
    let error = in_time(client.mcp_status()).await.unwrap_err();
    assert_eq!(error.exit_code(), Some(9), "{error}");
    let error = in_time(client.interrupt()).await.unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    assert!(in_time(client.send("hello")).await.is_err());
    let next = in_time(client.receive()).await;
    assert!(matches!(next, Some(Err(_))), "{next:?}");
    assert!(in_time(client.receive()).await.is_none());
    in_time(client.close()).await;
    harness.close().await;
}

#[tokio::test]
async fn silent_cli_times_out() {
    let steps = [FakeStep::stderr("thinking"), FakeStep::Silence];
    let harness = Harness::new(FakeClaude::new(steps));
    let short = Duration::from_millis(300);
    let error = connect(harness.options().request_timeout(short)).await;
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("initialize") && text.contains("0.3 s"),
        "{text}"
    );
    assert!(text.contains("thinking"), "{text}");
    harness.close().await;

    let harness = Harness::new(FakeClaude::new([FakeStep::Silence]));
    let (messages, error) = run_query(harness.options().request_timeout(short)).await;
    assert!(messages.is_empty() && error.is_some());
    harness.close().await;
}

#[tokio::test]
async fn close_kills_cli_that_ignores_sigterm() {
    let steps = [
        FakeStep::await_request("initialize"),
        FakeStep::RespondDefault,
        FakeStep::IgnoreShutdown,
    ];
    let harness = Harness::new(FakeClaude::new(steps));
    let client = connect(harness.options()).await.unwrap();
    in_time(client.close()).await;
    harness.close().await;
}

#[tokio::test]
async fn drop_kills_the_cli() {
    let steps = [
        FakeStep::await_request("initialize"),
        FakeStep::RespondDefault,
        FakeStep::IgnoreShutdown,
    ];
    let harness = Harness::new(FakeClaude::new(steps));
    let client = connect(harness.options()).await.unwrap();
    drop(client);
    harness.close().await;
}

#[tokio::test]
async fn dropped_query_leaves_no_process() {
    let harness = Harness::new(FakeClaude::during_turn([FakeStep::IgnoreShutdown]));
    let mut query = switchboard_claude::query("hello", harness.options());
    let first = in_time(query.next()).await.unwrap().unwrap();
    assert!(matches!(first, Message::System(_)), "{first:?}");
    drop(query);
    harness.close().await;
}
