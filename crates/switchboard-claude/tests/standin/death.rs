//! A CLI that dies, hangs or does not want to go.

use std::time::Duration;

use serde_json::json;
use switchboard_claude::Message;
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};

use crate::scene::{Scene, ask, connect, soon};

#[tokio::test]
async fn death_before_the_first_word_is_told_with_its_stderr() {
    let acts = [
        FakeStep::stderr("first line"),
        FakeStep::stderr("out of tea"),
        FakeStep::Exit(3),
    ];
    let scene = Scene::new(FakeClaude::new(acts));
    let error = connect(scene.options()).await.unwrap_err();
    assert_eq!(error.exit_code(), Some(3), "{error:?}");
    assert!(error.stderr().unwrap().contains("first line"), "{error:?}");
    assert!(error.to_string().contains("out of tea"), "{error}");
    scene.close().await;
}

#[tokio::test]
async fn a_result_before_the_first_answer_does_not_hide_why_the_cli_left() {
    let acts = [
        FakeStep::await_request("initialize"),
        FakeStep::Send(
            json!({"type": "result", "subtype": "error_during_execution", "is_error": true}),
        ),
        FakeStep::stderr("no conversation of that name"),
        FakeStep::Exit(1),
    ];
    let scene = Scene::new(FakeClaude::new(acts));
    let (_, error) = ask(scene.options().resume("nonsense")).await;
    let error = error.expect("it left");
    assert_eq!(error.exit_code(), Some(1), "{error}");
    assert!(error.to_string().contains("no conversation"), "{error}");
    scene.close().await;
}

#[tokio::test]
async fn death_in_the_middle_of_a_turn_ends_it_with_an_error() {
    let said =
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "I"}]}});
    for end in [FakeStep::Exit(7), FakeStep::KillSelf(9)] {
        let acts = [
            FakeStep::Send(said.clone()),
            FakeStep::stderr("it hurts"),
            end.clone(),
        ];
        let scene = Scene::new(FakeClaude::during_turn(acts));
        let (messages, error) = ask(scene.options()).await;
        assert_eq!(messages.len(), 2, "{messages:#?}");
        let error = error.expect("it died");
        assert!(error.to_string().contains("it hurts"), "{error}");
        let code = (end == FakeStep::Exit(7)).then_some(7);
        assert_eq!(error.exit_code(), code, "{error}");
        scene.close().await;
    }
}

#[tokio::test]
async fn an_end_without_a_result_is_an_error_too() {
    let scene = Scene::new(FakeClaude::during_turn([FakeStep::Exit(0)]));
    let (messages, error) = ask(scene.options()).await;
    assert!(messages.iter().all(|message| message.as_result().is_none()));
    assert_eq!(error.expect("there was no result").exit_code(), Some(0));
    scene.close().await;
}

#[tokio::test]
async fn death_fails_what_was_asked_and_all_that_is_asked_later() {
    let acts = [
        FakeStep::await_request("initialize"),
        FakeStep::AnswerDefault,
        FakeStep::await_request("mcp_status"),
        FakeStep::stderr("gone"),
        FakeStep::Exit(9),
    ];
    let scene = Scene::new(FakeClaude::new(acts));
    let client = connect(scene.options()).await.unwrap();
    let error = soon(client.mcp_status()).await.unwrap_err();
    assert_eq!(error.exit_code(), Some(9), "{error}");
    let error = soon(client.interrupt()).await.unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    assert!(soon(client.send("hello")).await.is_err());
    let next = soon(client.receive()).await;
    assert!(matches!(next, Some(Err(_))), "{next:?}");
    assert!(soon(client.receive()).await.is_none());
    soon(client.close()).await;
    scene.close().await;
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let acts = [FakeStep::stderr("thinking"), FakeStep::Silence];
    let scene = Scene::new(FakeClaude::new(acts));
    let short = Duration::from_millis(300);
    let error = connect(scene.options().request_timeout(short)).await;
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("initialize") && text.contains("0.3 s"),
        "{text}"
    );
    assert!(text.contains("thinking"), "{text}");
    scene.close().await;

    let scene = Scene::new(FakeClaude::new([FakeStep::Silence]));
    let (messages, error) = ask(scene.options().request_timeout(short)).await;
    assert!(messages.is_empty() && error.is_some());
    scene.close().await;
}

#[tokio::test]
async fn who_ignores_the_end_and_sigterm_is_killed() {
    let acts = [
        FakeStep::await_request("initialize"),
        FakeStep::AnswerDefault,
        FakeStep::IgnoreShutdown,
    ];
    let scene = Scene::new(FakeClaude::new(acts));
    let client = connect(scene.options()).await.unwrap();
    soon(client.close()).await;
    scene.close().await;
}

#[tokio::test]
async fn who_is_dropped_is_killed() {
    let acts = [
        FakeStep::await_request("initialize"),
        FakeStep::AnswerDefault,
        FakeStep::IgnoreShutdown,
    ];
    let scene = Scene::new(FakeClaude::new(acts));
    let client = connect(scene.options()).await.unwrap();
    drop(client);
    scene.close().await;
}

#[tokio::test]
async fn a_query_that_is_dropped_leaves_nothing() {
    let scene = Scene::new(FakeClaude::during_turn([FakeStep::IgnoreShutdown]));
    let mut query = switchboard_claude::query("hello", scene.options());
    let first = soon(query.next()).await.unwrap().unwrap();
    assert!(matches!(first, Message::System(_)), "{first:?}");
    drop(query);
    scene.close().await;
}
