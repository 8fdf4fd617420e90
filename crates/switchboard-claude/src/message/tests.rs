use serde_json::{Value, json};

use super::*;

fn parse(value: &Value) -> Message {
    Message::parse(&value.to_string()).unwrap()
}

#[test]
fn assistant_message_has_text_thinking_and_tool_use() {
    let message = parse(&json!({
        "type": "assistant",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [
                {"type": "thinking", "thinking": "sum", "signature": "s"},
                {"type": "text", "text": "Let me "},
                {"type": "text", "text": "add."},
                {"type": "tool_use", "id": "toolu_01", "name": "mcp__calc__add", "input": {"a": 15}},
                {"type": "redacted_thinking", "data": "…"},
            ],
            "stop_reason": null,
            "usage": {"input_tokens": 11, "output_tokens": 1},
        },
        "parent_tool_use_id": null, "session_id": "s-1", "uuid": "u-1",
    }));
    assert_eq!(message.text().as_deref(), Some("Let me add."));
    assert_eq!(message.session_id(), Some("s-1"));
    let uses: Vec<_> = message.tool_uses().collect();
    assert_eq!(uses.len(), 1);
    assert_eq!(uses[0].id, "toolu_01");
    assert_eq!(uses[0].name, "mcp__calc__add");
    assert_eq!(uses[0].input, json!({"a": 15}));
    let Message::Assistant(assistant) = message else {
        panic!("not the assistant");
    };
    assert_eq!(assistant.model, "claude-x");
    assert_eq!(assistant.usage.input_tokens, 11);
    assert_eq!(assistant.parent_tool_use_id, None);
    assert!(
        matches!(&assistant.content[0], ContentBlock::Thinking(thought) if thought.thinking == "sum")
    );
    assert!(matches!(&assistant.content[4], ContentBlock::Unknown(_)));
}

#[test]
fn tool_result_is_text_or_blocks() {
    let message = parse(&json!({
        "type": "user",
        "message": {"role": "user", "content": [
            {"tool_use_id": "t1", "type": "tool_result", "content": [
                {"type": "text", "text": "15+27"}, {"type": "image"}, {"type": "text", "text": "=42"}]},
            {"tool_use_id": "t2", "type": "tool_result", "content": "division by zero", "is_error": true},
            {"tool_use_id": "t3", "type": "tool_result"},
        ]},
        "tool_use_result": [{"type": "text", "text": "15+27=42"}],
    }));
    let results: Vec<_> = message.tool_results().collect();
    let texts: Vec<_> = results.iter().map(|result| result.text()).collect();
    assert_eq!(texts, ["15+27\n=42", "division by zero", ""]);
    let failed: Vec<_> = results.iter().map(|result| result.is_error).collect();
    assert_eq!(failed, [false, true, false]);
    assert_eq!(message.text(), None);
    let Message::User(user) = message else {
        panic!("not the user");
    };
    assert!(user.tool_use_result.is_some());
    assert_eq!(user.text(), None);
}

#[test]
fn plain_string_content_is_one_block() {
    let message = parse(&json!({
        "type": "user", "isReplay": true, "message": {"role": "user", "content": "hello"},
    }));
    let Message::User(user) = message else {
        panic!("not the user");
    };
    assert_eq!(user.text().as_deref(), Some("hello"));
    assert!(user.is_replay);
}

#[test]
fn result_has_usage_cost_and_denials() {
    // `type` is not the first member, as in the real output of the CLI.
    let message = parse(&json!({
        "duration_api_ms": 102, "stop_reason": "end_turn", "session_id": "s-1",
        "total_cost_usd": 0.000_888,
        "usage": {"input_tokens": 22, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2,
            "output_tokens": 40, "speed": "standard"},
        "modelUsage": {"claude-x": {"costUSD": 0.000_888}},
        "permission_denials": [{"tool_name": "Bash", "tool_use_id": "t9", "tool_input": {"command": "ls"}}],
        "terminal_reason": "completed", "subtype": "success", "is_error": false, "num_turns": 2,
        "duration_ms": 350.0, "result": "42", "structured_output": {"sum": 42}, "type": "result",
    }));
    let result = message.as_result().unwrap();
    assert!(result.is_success());
    assert_eq!(result.result.as_deref(), Some("42"));
    assert_eq!(
        (result.num_turns, result.duration_ms, result.duration_api_ms),
        (2, 350, 102)
    );
    assert_eq!(result.total_cost_usd, Some(0.000_888));
    assert_eq!(
        (result.usage.input_tokens, result.usage.output_tokens),
        (22, 40)
    );
    assert!(result.usage.raw.as_str().contains("standard"));
    assert!(result.model_usage.contains_key("claude-x"));
    assert_eq!(result.permission_denials[0].tool_name, "Bash");
    assert_eq!(result.structured_output, Some(json!({"sum": 42})));
}

#[test]
fn api_failure_is_not_a_success() {
    for (result, success) in [
        (
            json!({"type": "result", "subtype": "success", "is_error": true}),
            false,
        ),
        (
            json!({"type": "result", "subtype": "error_max_turns", "errors": ["too many"]}),
            false,
        ),
        (json!({"type": "result"}), false),
        (json!({"type": "result", "subtype": "success"}), true),
    ] {
        let message = parse(&result);
        assert_eq!(
            message.as_result().unwrap().is_success(),
            success,
            "{result}"
        );
    }
}

#[test]
fn init_lists_tools_and_servers() {
    let message = parse(&json!({
        "type": "system", "subtype": "init", "cwd": "/work", "session_id": "s-1",
        "tools": ["Read", 7, "mcp__calc__add"],
        "mcp_servers": [{"name": "calc", "status": "connected", "source": "sdk"}, "odd"],
        "model": "claude-x", "permissionMode": "default", "claude_code_version": "2.1.325",
        "capabilities": ["sdk_mcp_manifests"],
    }));
    let Message::System(system) = message else {
        panic!("not the system");
    };
    let init = system.init.unwrap();
    assert_eq!(init.tools, ["Read", "mcp__calc__add"]);
    assert_eq!(init.mcp_servers[0].name, "calc");
    assert_eq!(init.mcp_servers[0].status, "connected");
    assert_eq!(init.mcp_servers[1].name, "");
    assert_eq!(
        (init.version.as_str(), init.permission_mode.as_str()),
        ("2.1.325", "default")
    );
}

#[test]
fn stream_events_distinguish_their_deltas() {
    let delta = |delta: Value| {
        let event = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        match parse(&json!({"type": "stream_event", "event": event})) {
            Message::StreamEvent(event) => event,
            other => panic!("{other:?}"),
        }
    };
    let text = delta(json!({"type": "text_delta", "text": "4"}));
    assert_eq!(
        (text.text_delta(), text.thinking_delta()),
        (Some("4"), None)
    );
    let thought = delta(json!({"type": "thinking_delta", "thinking": "hm"}));
    assert_eq!(
        (thought.text_delta(), thought.thinking_delta()),
        (None, Some("hm"))
    );
    let input = delta(json!({"type": "input_json_delta", "partial_json": "{\"a\""}));
    assert_eq!(input.input_delta(), Some("{\"a\""));
    assert_eq!(delta(Value::Null).text_delta(), None);
}

#[test]
fn unknown_message_keeps_its_text() {
    let text = r#"{ "type":"tool_progress", "elapsed_time_seconds": 30 }"#;
    let Message::Unknown(unknown) = Message::parse(text).unwrap() else {
        panic!("not unknown");
    };
    assert_eq!(unknown.kind, "tool_progress");
    assert_eq!(unknown.raw.as_str(), text);
    for text in ["{}", "[]", "1", r#"{"type": 5}"#] {
        assert!(
            matches!(Message::parse(text).unwrap(), Message::Unknown(_)),
            "{text}"
        );
    }
    assert!(Message::parse("{").is_err());
}

#[test]
fn mistyped_fields_are_not_errors() {
    let values = [
        json!(null),
        json!(true),
        json!(-1.5),
        json!("x"),
        json!([[]]),
        json!({"a": {}}),
    ];
    let keys = [
        "subtype",
        "session_id",
        "uuid",
        "message",
        "event",
        "usage",
        "modelUsage",
        "errors",
        "tools",
        "mcp_servers",
        "num_turns",
        "total_cost_usd",
        "permission_denials",
        "is_error",
        "result",
    ];
    for kind in ["system", "assistant", "user", "result", "stream_event"] {
        for value in &values {
            let mut message = json!({"type": kind});
            for key in keys {
                message[key] = value.clone();
            }
            let parsed = parse(&message);
            assert_eq!(parsed.raw().to_value().unwrap(), message);
            assert!(!matches!(parsed, Message::Unknown(_)), "{message}");
            for member in ["content", "id", "model"] {
                message["message"] = json!({member: value});
                Message::parse(&message.to_string()).unwrap();
            }
        }
    }
}

#[test]
fn unparsable_tool_input_keeps_the_message() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for input in [r#"{"x":"\ud83d"}"#, deep.as_str(), r#"{"x":1e999}"#] {
        let denial = format!(r#"{{"tool_name":"Bash","tool_use_id":"t","tool_input":{input}}}"#);
        let line = format!(
            r#"{{"type":"result","subtype":"success","result":"so","permission_denials":[{denial}]}}"#
        );
        let message = Message::parse(&line).unwrap();
        let result = message.as_result().unwrap_or_else(|| panic!("{input}"));
        assert_eq!(result.result.as_deref(), Some("so"));
        assert_eq!(result.permission_denials[0].tool_name, "Bash");
        assert_eq!(result.raw.as_str(), line);

        let line = format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","name":"n","input":{input}}}]}}}}"#
        );
        let message = Message::parse(&line).unwrap();
        assert_eq!(message.tool_uses().next().unwrap().name, "n");
    }
}
