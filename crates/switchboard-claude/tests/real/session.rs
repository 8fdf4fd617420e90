//! Sessions: turns, models, modes, hooks, trouble with the model, and the end.

use std::sync::{Arc, Mutex};

use serde_json::json;
use switchboard_claude::{HookEvent, HookOutput, Hooks, Message, PermissionMode, query};
use switchboard_testkit::fake_model::{Block, ModelRequest, Turn};
use switchboard_testkit::wait_for_processes;

use crate::scene::{Scene, ask, connect, receive_turn, result_of, turn};

const ADD: &str = "mcp__calculator__add";

#[tokio::test]
async fn a_client_has_several_turns() {
    let turns = ["One.", "Two.", "Three."].map(Turn::text);
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let client = connect(scene.options().model("claude-opus-5-5")).await;
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

    let requests = scene.model.requests();
    let models: Vec<_> = requests.iter().map(ModelRequest::model).collect();
    let expected = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-sonnet-5-5"];
    assert_eq!(models, expected);
    let conversation = requests[2].all_text();
    for said in ["first question", "One.", "second question", "Two."] {
        assert!(conversation.contains(said), "{conversation}");
    }
    scene.close().await;
}

/// The mode that a turn began with.
fn mode(message: &Message) -> Option<&str> {
    match message {
        Message::System(system) => Some(system.init.as_ref()?.permission_mode.as_str()),
        _ => None,
    }
}

#[tokio::test]
async fn a_model_that_hangs_is_interrupted() {
    let Some(scene) = Scene::saying([Turn::Hang, Turn::text("Here I am.")]).await else {
        return;
    };
    let client = connect(scene.options()).await;
    client.send("Are you there?").await.unwrap();
    scene.model.wait_for_requests(1).await;
    client.interrupt().await.unwrap();
    let messages = receive_turn(&client).await;
    assert_eq!(result_of(&messages).subtype, "error_during_execution");
    let messages = turn(&client, "And now?").await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("Here I am."));
    client.close().await;
    scene.close().await;
}

#[tokio::test]
async fn what_the_model_says_comes_in_pieces_if_wanted() {
    let Some(scene) = Scene::saying([Turn::text("In pieces.")]).await else {
        return;
    };
    let options = scene.options().include_partial_messages(true);
    let messages = ask("Say something", options.system_prompt("be brief")).await;
    let piece = |message: &Message| match message {
        Message::StreamEvent(event) => event.text_delta().map(str::to_owned),
        _ => None,
    };
    let pieces: String = messages.iter().filter_map(piece).collect();
    assert_eq!(pieces, "In pieces.");
    assert!(scene.model.last_request().all_text().contains("be brief"));
    scene.close().await;
}

#[tokio::test]
async fn hooks_see_tools_and_may_stop_them() {
    let turns = [
        Turn::tool(ADD, json!({"a": 1, "b": 2})),
        Turn::tool("mcp__calculator__divide", json!({"a": 1, "b": 2})),
        Turn::text("So."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (before, after) = (Arc::clone(&seen), Arc::clone(&seen));
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
                let said = input.tool_response.to_string();
                after.lock().unwrap().push(format!("after {said}"));
                async { HookOutput::none() }
            },
        );
    let messages = ask("Go on", scene.with_calculator().hooks(hooks)).await;
    assert!(result_of(&messages).is_success());
    let heard = scene.model.last_request().tool_results();
    assert_eq!(heard[0].text(), "3");
    assert!(heard[1].is_error, "{heard:#?}");
    assert!(heard[1].text().contains("no divisions"), "{heard:#?}");
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[0], format!("before {ADD}"));
    assert!(seen[1].starts_with("after ") && seen[1].contains('3'));
    assert_eq!(seen[2..], ["before mcp__calculator__divide".to_owned()]);
    scene.close().await;
}

#[tokio::test]
async fn an_overloaded_model_is_asked_again() {
    let turns = [Turn::overloaded(), Turn::Reset, Turn::text("At last.")];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let messages = ask("Are you there?", scene.options()).await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("At last."));
    assert_eq!(scene.model.requests().len(), 3);
    scene.close().await;
}

#[tokio::test]
async fn a_refusal_of_the_model_is_a_result_that_says_so() {
    let scene = Scene::answering(|_| Turn::refused(400, "too long, too odd")).await;
    let Some(scene) = scene else {
        return;
    };
    // The CLI exits with 1 after such a result: that is no error of its own.
    let messages = ask("Are you there?", scene.options()).await;
    let result = result_of(&messages);
    assert!(!result.is_success(), "{result:#?}");
    let told = result.result.as_deref().unwrap_or_default();
    assert!(told.contains("too long, too odd"), "{result:#?}");
    scene.close().await;
}

#[tokio::test]
async fn turns_are_counted() {
    let add = || Turn::tool(ADD, json!({"a": 1, "b": 2}));
    let Some(scene) = Scene::saying([add(), add(), add()]).await else {
        return;
    };
    let options = scene.with_calculator().max_turns(2);
    let messages = ask("Add for ever", options).await;
    let result = result_of(&messages);
    assert_eq!(result.subtype, "error_max_turns");
    assert!(!result.is_success());
    assert_eq!(scene.model.left(), 1);
    scene.close().await;
}

#[tokio::test]
async fn a_query_that_is_dropped_leaves_nothing() {
    let Some(scene) = Scene::saying([Turn::blocks([Block::text("I begin")]), Turn::Hang]).await
    else {
        return;
    };
    let mut query = query("Go on", scene.with_calculator());
    query.next().await.unwrap().unwrap();
    wait_for_processes(scene.tag(), 1).await;
    drop(query);
    scene.close().await;
}
