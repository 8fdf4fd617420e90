//! Responses to tool calls: errors, invalid and oversized responses, structured content.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::future::IntoFuture as _;
use std::time::Duration;

use common::{InMemory, host_with, permissive};
use serde_json::json;
use switchboard::call::{Delivery, InvalidMessage};
use switchboard::limits::Limits;
use switchboard::{CallContext, CallError, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::time::Instant;

fn echo_and_add() -> Script {
    Script::legacy().tool("echo").tool("add")
}

#[tokio::test(start_paused = true)]
async fn invalid_input_schema_only_disables_validation() {
    let broken = json!({"name": "odd", "inputSchema": {"type": "no such type"}});
    let script = Script::legacy()
        .raw_tool(broken)
        .on("tools/call odd", [Step::text("fine")]);
    let (host, _) = host_with(script).await;
    let output = host
        .call("mcp__s__odd", json!({"anything": 1}))
        .await
        .unwrap();
    assert_eq!(output.to_text(), "fine");
    let notes = host.server_details("s").unwrap().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("tool odd: arguments are not validated"),
        "{notes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn json_rpc_error_message_is_reported() {
    let script = Script::legacy()
        .tool("work")
        .on("tools/call", [Step::error(-32000, "not today")]);
    let (host, _) = host_with(script).await;
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server s returned an error for work: not today (code -32000)"
    );
    assert_eq!(error.delivery(), Delivery::Answered);
}

#[tokio::test(start_paused = true)]
async fn tool_failure_is_output_not_error() {
    let failing = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
    let script = Script::legacy()
        .tool("work")
        .on("tools/call", [Step::Reply(failing)]);
    let (host, _) = host_with(script).await;
    let output = host.call("mcp__s__work", json!({})).await.unwrap();
    assert!(output.is_error);
    assert_eq!(output.to_text(), "no such file");
}

#[tokio::test(start_paused = true)]
async fn responses_with_wrong_ids_are_ignored() {
    let ok = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}"#;
    let wrong = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"wrong"}}]}}}}"#
        )
    };
    let mut steps: Vec<_> = ["999", "\"$ID\"", "$ID.0", "null", "-1"]
        .map(|id| Step::raw(&wrong(id)))
        .into();
    steps.extend([
        Step::raw(ok),
        Step::raw(&wrong("$ID")),
        Step::raw(&wrong("$ID")),
    ]);
    let (host, _) = host_with(Script::legacy().tool("work").on("tools/call", steps)).await;
    for _ in 0..3 {
        let output = host.call("mcp__s__work", json!({})).await.unwrap();
        assert_eq!(output.to_text(), "right");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_response_fails_only_its_call() {
    let id = r#""jsonrpc":"2.0","id":$ID"#;
    for (response, message) in [
        (
            format!(r#"{{{id},"result":{{}},"error":{{}}}}"#),
            "both `result` and `error`",
        ),
        (format!("{{{id}}}"), "neither `result` nor `error`"),
        (
            format!(r#"{{{id},"result":[]}}"#),
            "the result is not an object",
        ),
        (
            format!(r#"{{{id},"result":{{"content":[}}}}"#),
            "not valid JSON",
        ),
        (
            format!(r#"{{{id},"result":{{}},"id":7}}"#),
            "duplicate key `id`",
        ),
    ] {
        let has_two_ids = message.starts_with("duplicate key");
        let script = echo_and_add()
            .tool("work")
            .on("tools/call work", [Step::raw(&response)]);
        let (host, _) = host_with(script).await;
        let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
        if has_two_ids {
            // The client cannot know to which of the two ids the response belongs, so the call
            // times out.
            assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
        } else {
            assert!(error.to_string().ends_with(message), "{error}");
            assert!(matches!(error, CallError::InvalidResponse { .. }));
        }
        host.call("mcp__s__echo", json!({"message": "still here"}))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_response_fails_call_and_names_limit() {
    let limits = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let id_last =
        r#"{"result":{"content":[{"type":"text","text":"BIG"}]},"jsonrpc":"2.0","id":$ID}"#;
    let big = id_last.replace("BIG", &"x".repeat(5_000));
    let deep = id_last.replace("\"BIG\"", &format!("{}{}", "[".repeat(40), "]".repeat(40)));
    let wide = id_last.replace("\"BIG\"", &format!("[{}0]", "0,".repeat(300)));
    for (response, limits, expected) in [
        (
            big,
            limits(|limits| limits.message_bytes = 4_096),
            InvalidMessage::TooLong { limit: 4_096 },
        ),
        (
            deep,
            limits(|limits| limits.json_depth = 30),
            InvalidMessage::TooDeep { limit: 30 },
        ),
        (
            wide,
            limits(|limits| limits.json_nodes = 200),
            InvalidMessage::TooManyValues { limit: 200 },
        ),
    ] {
        let script = echo_and_add()
            .tool("work")
            .on("tools/call work", [Step::raw(&response)]);
        let server = MemoryServer::new(script);
        let host = permissive()
            .limits(limits)
            .connector("s", InMemory(server))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        let start_time = Instant::now();
        match host.call("mcp__s__work", json!({})).await.unwrap_err() {
            CallError::InvalidResponse { problem, .. } => assert_eq!(problem, expected),
            other => panic!("{other}"),
        }
        assert!(start_time.elapsed() < Duration::from_secs(1));
        host.call("mcp__s__echo", json!({"message": "still here"}))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn structured_content_mismatch_adds_note() {
    let tool = json!({
        "name": "work", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": ["sum"]},
    });
    for (result, note) in [
        (
            json!({"content": [], "structuredContent": {"sum": 1}}),
            None,
        ),
        (
            json!({"content": [], "structuredContent": {}}),
            Some(
                "the structured content does not match the output schema: \"sum\" is a required property",
            ),
        ),
        (
            json!({"content": []}),
            Some("structured content is missing although the tool declares an output schema"),
        ),
        (json!({"content": [], "isError": true}), None),
    ] {
        let script = Script::legacy()
            .raw_tool(tool.clone())
            .on("tools/call", [Step::Reply(result)]);
        let (host, _) = host_with(script).await;
        let output = host.call("mcp__s__work", json!({})).await.unwrap();
        assert_eq!(output.notes.first().map(String::as_str), note);
    }
}

#[tokio::test(start_paused = true)]
async fn error_without_id_fails_a_sole_call() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#;
    let script = Script::legacy()
        .tool("odd")
        .tool("slow")
        .on("tools/call odd", [Step::raw(error)])
        .on(
            "tools/call slow",
            [Step::DelayMs(1_000), Step::text("done")],
        );
    let (host, _) = host_with(script).await;
    let error = host.call("mcp__s__odd", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server s returned an error for odd: what? (code -32700)"
    );
    let odd = host
        .call("mcp__s__odd", json!({}))
        .context(CallContext::default().deadline(Instant::now() + Duration::from_secs(5)));
    let slow = host.call("mcp__s__slow", json!({}));
    let (slow, odd) = tokio::join!(slow.into_future(), odd.into_future());
    assert_eq!(slow.unwrap().to_text(), "done");
    assert_eq!(
        odd.unwrap_err().to_string(),
        "odd of server s: no response within 5s (the server sent responses with unknown request \
         ids); it may or may not have run"
    );
}
