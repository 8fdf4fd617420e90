//! Calls that fail with `URLElicitationRequired` (error -32042 of protocol version 2025-11-25)
//! until the user has visited a URL.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::CallError;
use switchboard::elicitation::ElicitResponse;
use switchboard::interaction::ClientCapabilities;
use switchboard::mcp::Era;
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::time::Instant;

use crate::common::permissive;
use crate::scripted_interaction::{ScriptedInteraction, script, start_host};

fn url_interaction() -> ScriptedInteraction {
    ScriptedInteraction {
        delay: Duration::from_secs(2 * 60 * 60),
        ..ScriptedInteraction::new(ClientCapabilities::default().elicitation_url())
    }
}

fn url_elicitation(id: &str) -> Value {
    let url = format!("https://a.example/{id}");
    json!({"mode": "url", "message": "log in", "url": url, "elicitationId": id})
}

fn url_required_error(elicitations: &Value) -> Step {
    Step::Error {
        code: -32042,
        message: "visit first".to_owned(),
        data: Some(json!({"elicitations": elicitations})),
    }
}

fn complete(id: &str) -> Step {
    Step::Notify {
        method: "notifications/elicitation/complete".to_owned(),
        params: Some(json!({"elicitationId": id})),
    }
}

/// A server that fails the first call with error -32042. It starts the steps `later` in the
/// background at the same time.
fn server_requiring_urls(elicitations: &Value, later: Vec<Step>) -> MemoryServer {
    let script = Script::legacy().tool("ask");
    MemoryServer::new(script.on(
        "tools/call ask",
        [
            Step::until(
                1,
                [Step::background(later), url_required_error(elicitations)],
            ),
            Step::after(2, [Step::text("done")]),
        ],
    ))
}

#[tokio::test(start_paused = true)]
async fn call_is_retried_after_completion() {
    // The user takes two hours for each of the two URLs. One minute after the user has answered
    // both, the server reports the completion of the second URL.
    let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
    let later = vec![
        Step::delay(hours(1)),
        complete("a"),
        complete("unknown"),
        Step::delay(hours(3) + Duration::from_secs(60)),
        complete("b"),
    ];
    let server = server_requiring_urls(&json!([url_elicitation("a"), url_elicitation("b")]), later);
    let interaction = url_interaction();
    let host = start_host(permissive().interaction(interaction.clone()), &server).await;
    let start_time = Instant::now();
    let output = host.call("mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(output.to_text(), "done");
    assert_eq!(start_time.elapsed().as_secs(), 4 * 60 * 60 + 60);
    assert_eq!(server.received_with("tools/call").len(), 2);
    assert_eq!(interaction.elicitations().len(), 2);
    assert_eq!(interaction.max_open(), 1);
}

#[tokio::test(start_paused = true)]
async fn missing_completion_is_awaited_five_minutes() {
    let server = server_requiring_urls(&json!([url_elicitation("a")]), Vec::new());
    let interaction = ScriptedInteraction::new(ClientCapabilities::default().elicitation_url());
    let host = start_host(permissive().interaction(interaction), &server).await;
    let start_time = Instant::now();
    host.call("mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(start_time.elapsed().as_secs(), 5 * 60);
}

#[tokio::test(start_paused = true)]
async fn declined_url_fails_the_call() {
    for answer in [ElicitResponse::Decline, ElicitResponse::Cancel] {
        let server = server_requiring_urls(
            &json!([url_elicitation("a"), url_elicitation("b")]),
            Vec::new(),
        );
        let interaction = url_interaction().with_answer(answer);
        let host = start_host(permissive().interaction(interaction.clone()), &server).await;
        let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
        assert_eq!(interaction.elicitations().len(), 1);
        assert_eq!(server.received_with("tools/call").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn call_is_retried_only_once() {
    let steps = [
        url_required_error(&json!([url_elicitation("a")])),
        complete("a"),
    ];
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let server = MemoryServer::new(script);
    let interaction = ScriptedInteraction::new(ClientCapabilities::default().elicitation_url());
    let host = start_host(permissive().interaction(interaction.clone()), &server).await;
    let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
    assert_eq!(interaction.elicitations().len(), 1);
    assert_eq!(server.received_with("tools/call").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn invalid_url_elicitations_fail_the_call() {
    let mut without_id = url_elicitation("a");
    without_id.as_object_mut().unwrap().remove("elicitationId");
    let form = json!({"message": "?", "requestedSchema": {}});
    let script =
        json!({"mode": "url", "message": "?", "url": "javascript:x", "elicitationId": "a"});
    for elicitations in [
        json!([]),
        json!(null),
        json!([url_elicitation("a"), form]),
        json!([url_elicitation("a"), script]),
        json!([without_id]),
        json!(vec![url_elicitation("a"); 100]),
    ] {
        let server = server_requiring_urls(&elicitations, Vec::new());
        let interaction = ScriptedInteraction::new(
            ClientCapabilities::default()
                .elicitation()
                .elicitation_url(),
        );
        let host = start_host(permissive().interaction(interaction.clone()), &server).await;
        let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
        assert_eq!(interaction.elicitations(), [], "{elicitations}");
    }
}

#[tokio::test(start_paused = true)]
async fn url_required_needs_legacy_and_capability() {
    for (era, capabilities) in [
        (Era::Modern, ClientCapabilities::default().elicitation_url()),
        (Era::Legacy, ClientCapabilities::default().elicitation()),
    ] {
        let steps = [url_required_error(&json!([url_elicitation("a")]))];
        let script = script(era).tool("ask").on("tools/call ask", steps);
        let server = MemoryServer::new(script);
        let interaction = ScriptedInteraction::new(capabilities);
        let host = start_host(permissive().interaction(interaction.clone()), &server).await;
        let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
        assert_eq!(interaction.elicitations(), []);
    }
}
