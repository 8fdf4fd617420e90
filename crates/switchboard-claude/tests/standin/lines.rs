//! Lines that are none, lines with something missing, and lines of the future.

use serde_json::json;
use switchboard_claude::Message;
use switchboard_testkit::fake_claude::{FakeClaude, FakeStep};

use crate::scene::{Scene, ask};

fn end() -> FakeStep {
    FakeStep::EndTurn("the end".to_owned())
}

#[tokio::test]
async fn what_is_no_message_is_passed_over() {
    let noise = ["", "[SandboxDebug] starting", "   ", "warning: old node"].map(FakeStep::raw);
    let script = FakeClaude::during_turn(noise.into_iter().chain([end()]));
    let scene = Scene::new(script);
    let (messages, error) = ask(scene.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(messages.len(), 2, "{messages:#?}");
    scene.close().await;
}

#[tokio::test]
async fn a_line_that_begins_as_json_and_is_none_is_an_error() {
    let acts = [
        FakeStep::stderr("careful"),
        FakeStep::raw(r#"{"type": "assist"#),
        end(),
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (_, error) = ask(scene.options()).await;
    let text = error.expect("a garbled line").to_string();
    assert!(text.contains(r#"{"type": "assist"#), "{text}");
    scene.close().await;
}

#[tokio::test]
async fn half_a_line_at_the_end_is_an_end_in_the_middle() {
    let acts = [
        FakeStep::Bytes(r#"{"type":"resu"#.to_owned()),
        FakeStep::Exit(0),
    ];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (_, error) = ask(scene.options()).await;
    assert!(error.is_some());
    scene.close().await;
}

#[tokio::test]
async fn what_is_missing_is_missed_by_nobody() {
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
    let silent = [
        json!({"type": "control_request"}),
        json!({"type": "control_request", "request": {"subtype": "can_use_tool"}}),
        json!({"type": "control_request", "request_id": "odd"}),
        json!({"type": "control_request", "request_id": "odd-2", "request": {"subtype": "mcp_message"}}),
        json!({"type": "control_response"}),
        json!({"type": "control_response", "response": {"request_id": "nobody"}}),
        json!({"type": "control_cancel_request"}),
        json!({"type": "control_cancel_request", "request_id": "nobody"}),
        json!({"type": "keep_alive"}),
    ];
    let count = sparse.len();
    let acts = silent.into_iter().chain(sparse).map(FakeStep::Send);
    let last = FakeStep::Send(json!({"type": "result"}));
    let idle = json!({"type": "system", "subtype": "session_state_changed", "state": "idle", "sdk_host_only": true});
    let scene = Scene::new(FakeClaude::during_turn(
        acts.chain([last, FakeStep::Send(idle)]),
    ));
    let (messages, error) = ask(scene.options()).await;
    assert!(error.is_none(), "{error:?}");
    let kept: Vec<_> = messages
        .iter()
        .map(|message| message.raw().as_str().to_owned())
        .collect();
    // The first is `system/init`, the last the result.
    assert_eq!(kept.len(), count + 2, "{kept:#?}");
    scene.close().await;
}

#[tokio::test]
async fn what_is_unknown_is_passed_on_as_it_came() {
    let news = json!({"type": "brand_new", "depth": {"of": [1, 2]}});
    let system = json!({"type": "system", "subtype": "brand_new", "x": 1});
    let acts = [FakeStep::Send(news.clone()), FakeStep::Send(system), end()];
    let scene = Scene::new(FakeClaude::during_turn(acts));
    let (messages, error) = ask(scene.options()).await;
    assert!(error.is_none(), "{error:?}");
    let Message::Unknown(unknown) = &messages[1] else {
        panic!("{messages:#?}");
    };
    assert_eq!(unknown.kind, "brand_new");
    let raw: serde_json::Value = serde_json::from_str(unknown.raw.as_str()).unwrap();
    assert_eq!(raw, news);
    assert!(matches!(&messages[2], Message::System(system) if system.subtype == "brand_new"));
    scene.close().await;
}

#[tokio::test]
async fn a_long_line_is_read_and_one_over_the_limit_is_an_error() {
    const SIZE: usize = 5_000_000;
    let script = || FakeClaude::during_turn([FakeStep::LongLine(SIZE), end()]);
    let scene = Scene::new(script());
    let (messages, error) = ask(scene.options()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(messages[1].raw().as_str().len(), SIZE);
    scene.close().await;

    let scene = Scene::new(script());
    let (_, error) = ask(scene.options().max_buffer_size(SIZE - 1)).await;
    let text = error.expect("a line that is too long").to_string();
    assert!(text.contains("max_buffer_size"), "{text}");
    scene.close().await;
}
