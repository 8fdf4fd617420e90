//! Calls that are refused until the user has been to an address (error -32042 of 2025-11-25).

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::CallError;
use switchboard::elicit::ElicitAnswer;
use switchboard::interaction::Offers;
use switchboard::mcp::Era;
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::time::Instant;

use crate::common::permissive;
use crate::scripted_interaction::{Front, script, started};

fn visitor() -> Front {
    Front {
        thinks: Duration::from_secs(2 * 60 * 60),
        ..Front::new(Offers::default().elicitation_url())
    }
}

fn visit(id: &str) -> Value {
    let url = format!("https://a.example/{id}");
    json!({"mode": "url", "message": "log in", "url": url, "elicitationId": id})
}

fn refusal(elicitations: &Value) -> Step {
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

/// A server that refuses the first call, and says later on that the visits are over.
fn refusing(elicitations: &Value, later: Vec<Step>) -> MemoryServer {
    let script = Script::legacy().tool("ask");
    MemoryServer::new(script.on(
        "tools/call ask",
        [
            Step::until(1, [Step::background(later), refusal(elicitations)]),
            Step::after(2, [Step::text("done")]),
        ],
    ))
}

#[tokio::test(start_paused = true)]
async fn the_call_goes_once_more_when_the_visits_are_over() {
    // The user takes two hours for each, and the server notices the second a minute later.
    let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
    let later = vec![
        Step::delay(hours(1)),
        complete("a"),
        complete("unknown"),
        Step::delay(hours(3) + Duration::from_secs(60)),
        complete("b"),
    ];
    let server = refusing(&json!([visit("a"), visit("b")]), later);
    let front = visitor();
    let host = started(permissive().interaction(front.clone()), &server).await;
    let start_time = Instant::now();
    let output = host.call("mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(output.to_text(), "done");
    assert_eq!(start_time.elapsed().as_secs(), 4 * 60 * 60 + 60);
    assert_eq!(server.received_with("tools/call").len(), 2);
    assert_eq!(front.questions().len(), 2);
    assert_eq!(front.most_open(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_says_so_is_waited_for_a_bounded_time() {
    let server = refusing(&json!([visit("a")]), Vec::new());
    let front = Front::new(Offers::default().elicitation_url());
    let host = started(permissive().interaction(front), &server).await;
    let start_time = Instant::now();
    host.call("mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(start_time.elapsed().as_secs(), 5 * 60);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_agree_gets_the_refusal() {
    for answer in [ElicitAnswer::Decline, ElicitAnswer::Cancel] {
        let server = refusing(&json!([visit("a"), visit("b")]), Vec::new());
        let front = visitor().answering(answer);
        let host = started(permissive().interaction(front.clone()), &server).await;
        let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
        assert_eq!(front.questions().len(), 1);
        assert_eq!(server.received_with("tools/call").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_once_more_and_not_twice() {
    let steps = [refusal(&json!([visit("a")])), complete("a")];
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let server = MemoryServer::new(script);
    let front = Front::new(Offers::default().elicitation_url());
    let host = started(permissive().interaction(front.clone()), &server).await;
    let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
    assert_eq!(front.questions().len(), 1);
    assert_eq!(server.received_with("tools/call").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_put_to_anybody_is_a_refusal() {
    let mut nameless = visit("a");
    nameless.as_object_mut().unwrap().remove("elicitationId");
    let form = json!({"message": "?", "requestedSchema": {}});
    let script =
        json!({"mode": "url", "message": "?", "url": "javascript:x", "elicitationId": "a"});
    for elicitations in [
        json!([]),
        json!(null),
        json!([visit("a"), form]),
        json!([visit("a"), script]),
        json!([nameless]),
        json!(vec![visit("a"); 100]),
    ] {
        let server = refusing(&elicitations, Vec::new());
        let front = Front::new(Offers::default().elicitation().elicitation_url());
        let host = started(permissive().interaction(front.clone()), &server).await;
        let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
        assert_eq!(front.questions(), [], "{elicitations}");
    }
}

#[tokio::test(start_paused = true)]
async fn modern_servers_and_those_it_is_not_offered_to_have_no_such_way() {
    for (era, offers) in [
        (Era::Modern, Offers::default().elicitation_url()),
        (Era::Legacy, Offers::default().elicitation()),
    ] {
        let steps = [refusal(&json!([visit("a")]))];
        let script = script(era).tool("ask").on("tools/call ask", steps);
        let server = MemoryServer::new(script);
        let front = Front::new(offers);
        let host = started(permissive().interaction(front.clone()), &server).await;
        let error = host.call("mcp__s__ask", json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::ErrorResponse { .. }), "{error}");
        assert_eq!(front.questions(), []);
    }
}
