//! Sessions: turns, models, permission modes, hooks, API errors and shutdown.

use std::sync::{Arc, Mutex};

use serde_json::json;
use switchboard_claude::{HookEvent, HookOutput, Hooks, Message, PermissionMode, query};
use switchboard_testkit::fake_model::{Block, ModelRequest, Turn};
use switchboard_testkit::wait_for_processes;

use crate::harness::{Harness, connect, receive_turn, result_of, run_query, turn};

const ADD: &str = "mcp__calculator__add";

#[tokio::test]
async fn client_runs_several_turns() {
    let turns = ["One.", "Two.", "Three."].map(Turn::text);
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let client = connect(harness.options().model("claude-opus-5-5")).await;
    let first = turn(&client, "first question").await;
    assert_eq!(result_of(&first).result.as_deref(), Some("One."));

    client.set_model(Some("claude-sonnet-5-5")).await.unwrap();
    let second = turn(&client, "second question").await;
    assert_eq!(result_of(&second).result.as_deref(), Some("Two."));

    client
        .set_permission_mode(PermissionMode::AcceptEdits)
        .await
        .unwrap();
    let third = turn(&client, "third question").await;
    let modes: Vec<_> = third.iter().filter_map(mode).collect();
    assert_eq!(modes, ["acceptEdits"]);
    client.close().await;

    let requests = harness.model.requests();
    let models: Vec<_> = requests.iter().map(ModelRequest::model).collect();
    let expected = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-sonnet-5-5"];
    assert_eq!(models, expected);
    let conversation = requests[2].all_text();
    for text in ["first question", "One.", "second question", "Two."] {
        assert!(conversation.contains(text), "{conversation}");
    }
    harness.close().await;
}

/// The permission mode that an `init` message reports at the start of a turn. `None` for other
/// messages.
fn mode(message: &Message) -> Option<&str> {
    match message {
        Message::System(system) => Some(system.init.as_ref()?.permission_mode.as_str()),
        _ => None,
    }
}

#[tokio::test]
async fn hanging_model_is_interrupted() {
    let Some(harness) = Harness::with_turns([Turn::Hang, Turn::text("Here I am.")]).await else {
        return;
    };
    let client = connect(harness.options()).await;
    client.send("Are you there?").await.unwrap();
    harness.model.wait_for_requests(1).await;
    client.interrupt().await.unwrap();
    let messages = receive_turn(&client).await;
    assert_eq!(result_of(&messages).subtype, "error_during_execution");
    let messages = turn(&client, "And now?").await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("Here I am."));
    client.close().await;
    harness.close().await;
}

#[tokio::test]
async fn partial_messages_arrive_in_pieces() {
    let Some(harness) = Harness::with_turns([Turn::text("In pieces.")]).await else {
        return;
    };
    let options = harness.options().include_partial_messages(true);
    let messages = run_query("Say something", options.system_prompt("be brief")).await;
    let piece = |message: &Message| match message {
        Message::StreamEvent(event) => event.text_delta().map(str::to_owned),
        _ => None,
    };
    let pieces: String = messages.iter().filter_map(piece).collect();
    assert_eq!(pieces, "In pieces.");
    assert!(harness.model.last_request().all_text().contains("be brief"));
    harness.close().await;
}

#[tokio::test]
async fn hooks_observe_and_deny_tools() {
    let turns = [
        Turn::tool(ADD, json!({"a": 1, "b": 2})),
        Turn::tool("mcp__calculator__divide", json!({"a": 1, "b": 2})),
        Turn::text("So."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let events = Arc::new(Mutex::new(Vec::new()));
    let (before, after) = (Arc::clone(&events), Arc::clone(&events));
    let hooks = Hooks::new()
        .on(HookEvent::PreToolUse, "mcp__calculator__.*", move |input| {
            let tool = input.tool_name.unwrap_or_default();
            before.lock().unwrap().push(format!("before {tool}"));
            async move {
                match tool.as_str() {
                    ADD => HookOutput::none(),
                    _ => HookOutput::deny("no divisions"),
                }
            }
        })
        .on(
            HookEvent::PostToolUse,
            "mcp__calculator__.*",
            move |input| {
                let response = input.tool_response.to_string();
                after.lock().unwrap().push(format!("after {response}"));
                async { HookOutput::none() }
            },
        );
    let messages = run_query("Go on", harness.with_calculator().hooks(hooks)).await;
    assert!(result_of(&messages).is_success());
    let tool_results = harness.model.last_request().tool_results();
    assert_eq!(tool_results[0].text(), "3");
    assert!(tool_results[1].is_error, "{tool_results:#?}");
    assert!(
        tool_results[1].text().contains("no divisions"),
        "{tool_results:#?}"
    );
    let events = events.lock().unwrap().clone();
    assert_eq!(events[0], format!("before {ADD}"));
    assert!(events[1].starts_with("after ") && events[1].contains('3'));
    assert_eq!(events[2..], ["before mcp__calculator__divide".to_owned()]);
    harness.close().await;
}

#[tokio::test]
async fn overloaded_model_is_retried() {
    let turns = [Turn::overloaded(), Turn::Reset, Turn::text("At last.")];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let messages = run_query("Are you there?", harness.options()).await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("At last."));
    assert_eq!(harness.model.requests().len(), 3);
    harness.close().await;
}

#[tokio::test]
async fn api_error_is_a_failed_result() {
    let harness = Harness::with_model(|_| Turn::error(400, "too long, too odd")).await;
    let Some(harness) = harness else {
        return;
    };
    // The CLI exits with code 1 after a failed result. The query must not report that as a second
    // error.
    let messages = run_query("Are you there?", harness.options()).await;
    let result = result_of(&messages);
    assert!(!result.is_success(), "{result:#?}");
    let text = result.result.as_deref().unwrap_or_default();
    assert!(text.contains("too long, too odd"), "{result:#?}");
    harness.close().await;
}

#[tokio::test]
async fn max_turns_ends_the_turn() {
    let add = || Turn::tool(ADD, json!({"a": 1, "b": 2}));
    let Some(harness) = Harness::with_turns([add(), add(), add()]).await else {
        return;
    };
    let options = harness.with_calculator().max_turns(2);
    let messages = run_query("Add for ever", options).await;
    let result = result_of(&messages);
    assert_eq!(result.subtype, "error_max_turns");
    assert!(!result.is_success());
    assert_eq!(harness.model.remaining_turns(), 1);
    harness.close().await;
}

#[tokio::test]
async fn dropped_query_leaves_no_process() {
    let Some(harness) =
        Harness::with_turns([Turn::blocks([Block::text("I begin")]), Turn::Hang]).await
    else {
        return;
    };
    let mut query = query("Go on", harness.with_calculator());
    query.next().await.unwrap().unwrap();
    wait_for_processes(harness.tag(), 1).await;
    drop(query);
    harness.close().await;
}
