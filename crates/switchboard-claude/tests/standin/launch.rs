//! How the CLI is started, and how its input ends.

use serde_json::json;
use switchboard::InProcessServer;
use switchboard_claude::{Error, Message, Options, PermissionResult, Prompt, query};
use switchboard_testkit::Sandbox;
use switchboard_testkit::fake_claude::{FAKE_CLAUDE_TEXT, FakeClaude, FakeStep};

use crate::scene::{Scene, ask, connect, soon};

#[tokio::test]
async fn what_could_not_work_is_refused_before_the_cli_is_started() {
    let scene = Scene::new(FakeClaude::well_behaved());
    let calc = || InProcessServer::new("calc", "1");
    let alike = scene.options().sdk_server("my calc", calc());
    let alike = alike.sdk_server("my_calc", calc());
    let error = connect(alike).await.unwrap_err();
    assert!(error.to_string().contains("rename one"), "{error}");

    let blocks = Prompt::blocks([json!(3)]);
    let error = query(blocks, scene.options()).next().await;
    let error = error.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("content blocks with a `type`"),
        "{error}"
    );

    let folder = scene.options().cli_path(scene.project());
    let error = connect(folder).await.unwrap_err();
    assert!(error.to_string().contains("executable"), "{error}");
    assert!(scene.record().is_empty());
    scene.close().await;
}

#[tokio::test]
async fn a_query_is_a_turn() {
    let scene = Scene::new(FakeClaude::well_behaved());
    let options = scene.options().max_turns(3).env("ANTHROPIC_MARK", "x");
    let (messages, error) = ask(options).await;
    assert!(error.is_none(), "{error:?}");
    let [
        Message::System(init),
        Message::Assistant(said),
        Message::Result(result),
    ] = messages.as_slice()
    else {
        panic!("{messages:#?}");
    };
    assert_eq!(init.init.as_ref().unwrap().model, "stand-in");
    assert_eq!(said.text().as_deref(), Some(FAKE_CLAUDE_TEXT));
    assert!(result.is_success());
    assert_eq!((result.num_turns, result.usage.output_tokens), (1, 7));

    let record = scene.record();
    let started = &record[0]["started"];
    assert_eq!(started["directory"], json!(scene.project()));
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
    scene.close().await;
}

/// Says which state the CLI is in.
fn state(state: &str) -> FakeStep {
    FakeStep::Send(json!({
        "type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": true,
    }))
}

#[tokio::test]
async fn the_input_stays_open_until_the_cli_is_idle() {
    let result = FakeStep::Send(json!({"type": "result", "subtype": "success", "result": "first"}));
    // A result while it still runs is not the end: something in the background is to be answered.
    let question = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    let acts = [
        state("running"),
        result,
        FakeStep::Request(question),
        FakeStep::ReportResponse,
        state("idle"),
        FakeStep::AwaitEof,
        FakeStep::Exit(0),
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let allow = |_| async { PermissionResult::allow() };
    let (messages, error) = ask(scene.options().can_use_tool(allow)).await;
    assert!(error.is_none(), "{error:?}");
    let results: Vec<_> = messages.iter().filter_map(Message::as_result).collect();
    let [first, second] = results.as_slice() else {
        panic!("{messages:#?}");
    };
    assert_eq!(first.result.as_deref(), Some("first"));
    assert!(second.result.as_deref().unwrap().contains("allow"));
    scene.close().await;
}

#[tokio::test]
async fn a_failed_turn_and_the_code_that_follows_it_are_no_error() {
    let result = json!({"type": "result", "subtype": "error_during_execution", "is_error": true});
    let acts = [
        FakeStep::Send(result),
        state("idle"),
        FakeStep::AwaitEof,
        FakeStep::Exit(1),
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (messages, error) = ask(scene.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert!(!messages.last().unwrap().as_result().unwrap().is_success());
    scene.close().await;
}

#[tokio::test]
async fn a_cli_that_is_not_there_says_how_to_get_it() {
    let options = Options::new().cli_path("/nowhere/claude");
    let error = connect(options.clone()).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("/nowhere/claude"), "{text}");
    assert!(
        text.contains("npm install -g @anthropic-ai/claude-code"),
        "{text}"
    );
    let (messages, error) = ask(options).await;
    assert!(messages.is_empty());
    assert_eq!(error.unwrap().to_string(), text);
}

#[tokio::test]
async fn a_file_that_is_no_program_is_named() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("claude", "no program");
    let error = connect(Options::new().cli_path(&path)).await.unwrap_err();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
}

#[tokio::test]
async fn servers_of_ours_are_declared_with_what_they_offer() {
    let scene = Scene::new(FakeClaude::well_behaved());
    let server = InProcessServer::new("it", "1.0").tool("t", "A tool", || async { Ok("t") });
    let client = connect(scene.options().sdk_server("it", server)).await;
    let client = client.unwrap();
    let parked = client.server_info()["sdk_mcp_manifests_parked"].clone();
    assert_eq!(parked, json!({"it": "parked"}));
    soon(client.close()).await;
    let record = scene.record();
    let manifest = &record[1]["request"]["sdkMcpServerManifests"]["it"];
    assert_eq!(manifest["initializeResult"]["serverInfo"]["name"], "it");
    assert_eq!(manifest["toolsListResult"]["tools"][0]["name"], "t");
    scene.close().await;
}
