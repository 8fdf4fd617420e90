use serde_json::json;

use super::*;

fn request(id: &str) -> Value {
    json!({
        "subtype": "hook_callback", "callback_id": id, "tool_use_id": "toolu_01",
        "input": {
            "session_id": "s-1", "transcript_path": "/t.jsonl", "cwd": "/work",
            "permission_mode": "default", "hook_event_name": "PreToolUse",
            "tool_name": "mcp__calc__add", "tool_input": {"a": 15},
            "mcp_server": {"name": "calc", "source": "sdk"},
        },
    })
}

fn hooks_returning(output: HookOutput) -> Hooks {
    Hooks::new().on(HookEvent::PreToolUse, HookMatcher::all(), move |_| {
        std::future::ready(output.clone())
    })
}

#[test]
fn hooks_are_registered_by_event() {
    let nothing = |_| async { HookOutput::none() };
    let slow = HookMatcher::from("Bash").timeout(Duration::from_millis(5_900));
    let hooks = Hooks::new()
        .on(HookEvent::PreToolUse, "mcp__calc__.*", nothing)
        .on(HookEvent::Stop, HookMatcher::all(), nothing)
        .on(HookEvent::PreToolUse, slow, nothing)
        .on(
            HookEvent::Other("New".to_owned()),
            HookMatcher::all(),
            nothing,
        );
    assert_eq!(
        hooks.to_json(),
        Some(json!({
            "PreToolUse": [
                {"matcher": "mcp__calc__.*", "hookCallbackIds": ["hook_0"], "onFailure": "block"},
                {"matcher": "Bash", "hookCallbackIds": ["hook_2"], "timeout": 5, "onFailure": "block"},
            ],
            "Stop": [{"matcher": null, "hookCallbackIds": ["hook_1"]}],
            "New": [{"matcher": null, "hookCallbackIds": ["hook_3"]}],
        }))
    );
    assert_eq!(Hooks::new().to_json(), None);
}

#[tokio::test]
async fn hook_receives_the_event() {
    let hooks = Hooks::new().on(
        HookEvent::PreToolUse,
        HookMatcher::all(),
        |input| async move {
            assert_eq!(input.event, HookEvent::PreToolUse);
            assert_eq!(input.session_id, "s-1");
            assert_eq!(input.tool_name.as_deref(), Some("mcp__calc__add"));
            assert_eq!(input.tool_input, json!({"a": 15}));
            assert_eq!(input.tool_response, Value::Null);
            assert_eq!(input.tool_use_id.as_deref(), Some("toolu_01"));
            assert_eq!(input.server.as_deref(), Some("calc"));
            assert!(input.raw.as_str().contains("transcript_path"));
            HookOutput::none()
        },
    );
    assert_eq!(hooks.callback(request("hook_0")).await, Ok(json!({})));
}

#[tokio::test]
async fn outputs_have_their_json_form() {
    let specific = |value: Value| json!({"hookSpecificOutput": value});
    let raw = Map::from_iter([("suppressOutput".to_owned(), json!(true))]);
    for (output, expected) in [
        (HookOutput::none(), json!({})),
        (
            HookOutput::block("no"),
            json!({"decision": "block", "reason": "no"}),
        ),
        (
            HookOutput::stop("enough"),
            json!({"continue": false, "stopReason": "enough"}),
        ),
        (
            HookOutput::allow(),
            specific(json!({"hookEventName": "PreToolUse", "permissionDecision": "allow"})),
        ),
        (
            HookOutput::deny("no"),
            specific(
                json!({"hookEventName": "PreToolUse", "permissionDecision": "deny",
                "permissionDecisionReason": "no"}),
            ),
        ),
        (
            HookOutput::ask("sure?")
                .additional_context("it is late")
                .system_message("hm"),
            json!({"systemMessage": "hm", "hookSpecificOutput": {"hookEventName": "PreToolUse",
                "permissionDecision": "ask", "permissionDecisionReason": "sure?",
                "additionalContext": "it is late"}}),
        ),
        (
            HookOutput::allow().updated_input(Map::new()),
            specific(
                json!({"hookEventName": "PreToolUse", "permissionDecision": "allow",
                "updatedInput": {}}),
            ),
        ),
        (HookOutput::raw(raw), json!({"suppressOutput": true})),
    ] {
        assert_eq!(
            hooks_returning(output).callback(request("hook_0")).await,
            Ok(expected)
        );
    }
}

#[tokio::test]
async fn unknown_hook_id_is_rejected() {
    let hooks = hooks_returning(HookOutput::none());
    for id in ["hook_1", "hook_", "hook_-1", "other", ""] {
        let answer = hooks.callback(request(id)).await;
        assert_eq!(answer, Err(format!("unknown hook `{id}`")));
    }
    assert!(hooks.callback(json!(null)).await.is_err());
}

#[tokio::test]
async fn panicking_hook_is_an_error() {
    let hooks = Hooks::new().on(HookEvent::Stop, HookMatcher::all(), |_| async {
        panic!("oh")
    });
    let answer = hooks.callback(request("hook_0")).await;
    assert_eq!(answer, Err("the hook for PreToolUse panicked".to_owned()));
}

#[test]
fn event_names_round_trip() {
    for event in HookEvent::KNOWN {
        assert_eq!(HookEvent::from(event.as_str()), event);
    }
    assert_eq!(HookEvent::from("New"), HookEvent::Other("New".to_owned()));
}
