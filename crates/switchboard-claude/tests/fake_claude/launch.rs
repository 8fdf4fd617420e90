//! Starting the CLI and closing its input.

use serde_json::json;
use switchboard::InProcessServer;
use switchboard_claude::{Error, Message, Options, PermissionResult, Prompt, query};
use switchboard_testkit::Sandbox;
use switchboard_testkit::fake_claude::{FAKE_CLAUDE_TEXT, FakeClaude, FakeStep};

use crate::harness::{Harness, connect, in_time, run_query};

#[tokio::test]
async fn invalid_input_is_rejected_before_start() {
    let harness = Harness::new(FakeClaude::well_behaved());
    let calc = || InProcessServer::new("calc", "1");
    let colliding = harness.options().sdk_server("my calc", calc());
    let colliding = colliding.sdk_server("my_calc", calc());
    let error = connect(colliding).await.unwrap_err();
    assert!(error.to_string().contains("rename one"), "{error}");

    let blocks = Prompt::blocks([json!(3)]);
    let error = query(blocks, harness.options()).next().await;
    let error = error.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("content blocks with a `type`"),
        "{error}"
    );

    let directory = harness.options().cli_path(harness.project());
    let error = connect(directory).await.unwrap_err();
    assert!(error.to_string().contains("executable"), "{error}");
    assert!(harness.record().is_empty());
    harness.close().await;
}

#[tokio::test]
async fn query_runs_one_turn() {
    let harness = Harness::new(FakeClaude::well_behaved());
    let options = harness.options().max_turns(3).env("ANTHROPIC_MARK", "x");
    let (messages, error) = run_query(options).await;
    assert!(error.is_none(), "{error:?}");
    let [
        Message::System(init),
        Message::Assistant(assistant),
        Message::Result(result),
    ] = messages.as_slice()
    else {
        panic!("{messages:#?}");
    };
    assert_eq!(init.init.as_ref().unwrap().model, "fake-model");
    assert_eq!(assistant.text().as_deref(), Some(FAKE_CLAUDE_TEXT));
    assert!(result.is_success());
    assert_eq!((result.num_turns, result.usage.output_tokens), (1, 7));

    let record = harness.record();
    let started = &record[0]["started"];
    assert_eq!(started["directory"], json!(harness.project()));
    let arguments = started["arguments"].to_string();
    for expected in [
        r#""--output-format","stream-json""#,
        r#""--input-format","stream-json""#,
        r#""--verbose""#,
        r#""--max-turns","3""#,
    ] {
        assert!(arguments.contains(expected), "{arguments}");
    }
    let environment = &started["environment"];
    assert_eq!(environment["ANTHROPIC_MARK"], "x");
    assert_eq!(environment["CLAUDE_CODE_SDK_READS_SESSION_STATE"], "1");
    assert!(environment.get("CLAUDECODE").is_none());
    assert_eq!(record[1]["request"]["subtype"], "initialize");
    assert_eq!(record[2]["message"]["content"], "hello");
    assert_eq!(record.len(), 3, "{record:#?}");
    harness.close().await;
}

/// A message in which the fake CLI reports this session state.
fn state(state: &str) -> FakeStep {
    FakeStep::Send(json!({
        "type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": true,
    }))
}

#[tokio::test]
async fn input_stays_open_until_cli_is_idle() {
    let result = FakeStep::Send(json!({"type": "result", "subtype": "success", "result": "first"}));
    // The result does not end the turn while the state is `running`: the CLI still sends a request
    // after the result.
    let question = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    let steps = [
        state("running"),
        result,
        FakeStep::Request(question),
        FakeStep::ReportResponse,
        state("idle"),
        FakeStep::AwaitEof,
        FakeStep::Exit(0),
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let allow = |_| async { PermissionResult::allow() };
    let (messages, error) = run_query(harness.options().can_use_tool(allow)).await;
    assert!(error.is_none(), "{error:?}");
    let results: Vec<_> = messages.iter().filter_map(Message::as_result).collect();
    let [first, second] = results.as_slice() else {
        panic!("{messages:#?}");
    };
    assert_eq!(first.result.as_deref(), Some("first"));
    assert!(second.result.as_deref().unwrap().contains("allow"));
    harness.close().await;
}

#[tokio::test]
async fn exit_code_after_failed_turn_is_no_error() {
    let result = json!({"type": "result", "subtype": "error_during_execution", "is_error": true});
    let steps = [
        FakeStep::Send(result),
        state("idle"),
        FakeStep::AwaitEof,
        FakeStep::Exit(1),
    ];
    let harness = Harness::new(FakeClaude::during_turn(steps));
    let (messages, error) = run_query(harness.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert!(!messages.last().unwrap().as_result().unwrap().is_success());
    harness.close().await;
}

#[tokio::test]
async fn missing_cli_names_the_installer() {
    let options = Options::new().cli_path("/nowhere/claude");
    let error = connect(options.clone()).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("/nowhere/claude"), "{text}");
    assert!(
        text.contains("npm install -g @anthropic-ai/claude-code"),
        "{text}"
    );
    let (messages, error) = run_query(options).await;
    assert!(messages.is_empty());
    assert_eq!(error.unwrap().to_string(), text);
}

#[tokio::test]
async fn non_executable_file_is_named() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("claude", "no program");
    let error = connect(Options::new().cli_path(&path)).await.unwrap_err();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
}

#[tokio::test]
async fn in_process_servers_send_manifests() {
    let harness = Harness::new(FakeClaude::well_behaved());
    let server = InProcessServer::new("it", "1.0").tool("t", "A tool", || async { Ok("t") });
    let client = connect(harness.options().sdk_server("it", server)).await;
    let client = client.unwrap();
    let parked = client.server_info()["sdk_mcp_manifests_parked"].clone();
    assert_eq!(parked, json!({"it": "parked"}));
    in_time(client.close()).await;
    let record = harness.record();
    let manifest = &record[1]["request"]["sdkMcpServerManifests"]["it"];
    assert_eq!(manifest["initializeResult"]["serverInfo"]["name"], "it");
    assert_eq!(manifest["toolsListResult"]["tools"][0]["name"], "t");
    harness.close().await;
}
