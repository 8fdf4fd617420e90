//! Calls through the whole pipeline, over scripted servers in memory on a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
)]

mod common;

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{InMemory, host_with, permissive};
use serde_json::{Value, json};
use switchboard::call::{Delivery, TimeoutKind};
use switchboard::interaction::BoxFuture;
use switchboard::limits::{Deadlines, Limits};
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::trace::{Direction, WireTap};
use switchboard::{CallContext, CallError, Host, Interaction, Readiness};
use switchboard_config::ServerName;
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::time::{Instant, timeout};

fn polite() -> Script {
    Script::legacy().tool("echo").tool("add")
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_the_whole_way_and_comes_back() {
    for script in [polite(), Script::modern().tool("echo").tool("add")] {
        let (host, _) = host_with(script).await;
        let output = host
            .call("mcp__s__add", json!({"a": 15, "b": 27}))
            .await
            .unwrap();
        assert_eq!(output.to_text(), "42");
        assert_eq!(output.structured.unwrap().as_str(), r#"{"sum":42}"#);
        assert!(!output.is_error);
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_can_be_given_or_lent() {
    let (host, _) = host_with(polite()).await;
    let kept = json!({"a": 1, "b": 2});
    let object = kept.as_object().cloned().unwrap();
    let lent = host.call("mcp__s__add", &kept).await.unwrap();
    let given = host.call("mcp__s__add", object).await.unwrap();
    assert_eq!(
        (lent.to_text(), given.to_text()),
        ("3".to_owned(), "3".to_owned())
    );
    let none = host.call("mcp__s__echo", &Value::Null).await.unwrap_err();
    assert!(matches!(none, CallError::InvalidArguments { .. }), "{none}");
}

struct Clumsy;

impl WireTap for Clumsy {
    fn line(&self, _: &ServerName, direction: Direction, line: &str) {
        panic!("{direction:?} {} bytes", line.len());
    }
}

#[tokio::test]
async fn a_tap_that_panics_costs_no_line() {
    let server = MemoryServer::new(polite());
    let host = permissive()
        .connector("s", InMemory(server))
        .wire_tap(Arc::new(Clumsy))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    for size in [1, 2 * 1024 * 1024] {
        let message = json!({"message": "x".repeat(size)});
        let call = host.call("mcp__s__echo", message).into_future();
        let output = timeout(Duration::from_secs(60), call).await.unwrap();
        assert!(!output.unwrap().is_error);
    }
}

#[tokio::test(start_paused = true)]
async fn many_calls_are_under_way_at_once_and_each_gets_its_own_answer() {
    let (host, _) = host_with(Script::legacy().tool("sleep").tool("echo")).await;
    let began = Instant::now();
    let calls = (0..50).map(|n| {
        let host = host.clone();
        async move {
            let slow = host.call("mcp__s__sleep", json!({"ms": 1_000 - n})).await;
            let text = format!("message {n}");
            let echo = host
                .call("mcp__s__echo", json!({"message": text}))
                .await
                .unwrap();
            (slow.is_ok(), echo.to_text() == text)
        }
    });
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(|outcome| *outcome == (true, true)));
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "they did not run at once"
    );
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_never_reach_the_server() {
    let (host, server) = host_with(polite()).await;
    for (arguments, complaint) in [
        (json!({"a": 1}), "\"b\" is a required property"),
        (
            json!({"a": "x", "b": 1}),
            "at /a: \"x\" is not of type \"number\"",
        ),
        (json!([1, 2]), "arguments must be a JSON object"),
    ] {
        match host.call("mcp__s__add", arguments).await.unwrap_err() {
            error @ CallError::InvalidArguments { .. } => {
                assert!(error.to_string().ends_with(complaint), "{error}");
                assert_eq!(error.delivery(), Delivery::NotSent);
            }
            other => panic!("{other}"),
        }
    }
    assert!(server.received_with("tools/call").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_is_answered_with_the_nearest_name() {
    let (host, _) = host_with(polite()).await;
    let error = host.call("mcp__s__ech", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no tool mcp__s__ech; did you mean mcp__s__echo?"
    );
    let error = host.call("something else", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no tool something else");
}

/// Answers every question in the same way and remembers what was asked.
struct Scripted {
    answer: PermissionResponse,
    asked: &'static Mutex<Vec<(String, Value, String)>>,
}

impl Interaction for Scripted {
    fn can_use_tool(&self, question: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        self.asked.lock().unwrap().push((
            question.tool.to_string(),
            Value::Object(question.arguments.clone()),
            question.context.principal.to_string(),
        ));
        Box::pin(std::future::ready(self.answer))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_rule_is_asked_about_with_all_that_matters() {
    for (answer, is_allowed) in [
        (PermissionResponse::Allow, true),
        (PermissionResponse::Deny, false),
        (PermissionResponse::NoInteraction, false),
    ] {
        let asked: &'static Mutex<_> = Box::leak(Box::default());
        let server = MemoryServer::new(polite());
        let host = Host::builder()
            .connector("s", InMemory(server.clone()))
            .interaction(Scripted { answer, asked })
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        let outcome = host
            .call("mcp__s__echo", json!({"message": "hi"}))
            .context(CallContext::for_principal("ada"))
            .await;
        assert_eq!(outcome.is_ok(), is_allowed);
        assert_eq!(
            *asked.lock().unwrap(),
            [(
                "echo of server s".to_owned(),
                json!({"message": "hi"}),
                "ada".to_owned()
            )]
        );
        assert_eq!(
            server.received_with("tools/call").len(),
            usize::from(is_allowed)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_never_reaches_the_server() {
    let server = MemoryServer::new(polite());
    let host = permissive()
        .rule(Rule::new(Action::Deny, "mcp__s__ec*").unwrap())
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let error = host
        .call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("mcp__s__ec*"), "{error}");
    assert!(server.received_with("tools/call").is_empty());
    host.call("mcp__s__add", json!({"a": 1, "b": 1}))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn progress_comes_in_order_and_before_the_answer() {
    let notes = (0..40).map(Step::progress).chain([Step::text("done")]);
    let (host, _) = host_with(Script::legacy().tool("work").on("tools/call work", notes)).await;
    let mut seen = Vec::new();
    let output = host
        .call("mcp__s__work", json!({}))
        .on_progress(|note| seen.push(note.progress))
        .await
        .unwrap();
    assert_eq!(output.to_text(), "done");
    assert_eq!(seen, (0..40).map(f64::from).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_tells_the_server() {
    let (host, server) =
        host_with(Script::legacy().tool("work").on("tools/call", [Step::Hang])).await;
    let call = async { host.call("mcp__s__work", json!({})).await };
    tokio::select! {
        outcome = call => panic!("{outcome:?}"),
        _ = server.wait_received("tools/call", 1) => {}
    }
    let call = &server.received_with("tools/call")[0];
    let cancelled = &server.wait_received("notifications/cancelled", 1).await[0];
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_with_its_fate_unknown() {
    let (host, server) =
        host_with(Script::legacy().tool("work").on("tools/call", [Step::Hang])).await;
    let began = Instant::now();
    let deadline = began + Duration::from_secs(7);
    let error = host
        .call("mcp__s__work", json!({}))
        .context(CallContext::default().deadline(deadline))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            CallError::TimedOut {
                kind: TimeoutKind::Total,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.delivery(), Delivery::Unknown);
    assert_eq!(began.elapsed().as_secs(), 7);
    server.wait_received("notifications/cancelled", 1).await;
    // The session goes on.
    let script_is_alive = host.server_status("s").unwrap();
    assert_eq!(script_is_alive.status.as_str(), "connected");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_sign_of_life_ends_sooner_than_one_with() {
    let minute = Duration::from_secs(60);
    let lively = Step::repeat(20, [Step::delay(minute), Step::progress(1)]);
    let script = Script::legacy()
        .tool("silent")
        .tool("lively")
        .on("tools/call silent", [Step::Hang])
        .on("tools/call lively", [lively, Step::text("at last")]);
    let (host, _) = host_with(script).await;

    let began = Instant::now();
    let error = host.call("mcp__s__silent", json!({})).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::TimedOut {
                kind: TimeoutKind::Idle,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(began.elapsed().as_secs(), 5 * 60);

    let output = host.call("mcp__s__lively", json!({})).await.unwrap();
    assert_eq!(output.to_text(), "at last");
}

#[tokio::test(start_paused = true)]
async fn no_sign_of_life_helps_past_the_absolute_deadline() {
    let chatter = Step::forever([Step::delay(Duration::from_secs(1)), Step::progress(1)]);
    let (host, _) = host_with(Script::legacy().tool("work").on("tools/call", [chatter])).await;
    let began = Instant::now();
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::TimedOut {
                kind: TimeoutKind::Total,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(began.elapsed().as_secs(), 60 * 60);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_server_dies_is_unknown_and_is_not_sent_again() {
    let script = Script::legacy()
        .tool("work")
        .on("tools/call", [Step::count("ran"), Step::Exit(1)]);
    let (host, server) = host_with(script).await;
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_eq!(error.delivery(), Delivery::Unknown);
    host.wait_for(Readiness::All).await;
    assert_eq!(server.count("ran"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_costs_bounded_memory_and_stalls_nobody() {
    let limits = {
        let mut limits = Limits::default();
        limits.outbox_bytes = 300_000;
        limits
    };
    let deaf = MemoryServer::new(
        Script::legacy()
            .tool("work")
            .serial()
            .on("tools/call work", [Step::StopReading, Step::Hang]),
    );
    let host = permissive()
        .limits(limits)
        .connector("deaf", InMemory(deaf))
        .connector("s", InMemory(MemoryServer::new(polite())))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let load = json!({"load": "x".repeat(100_000)});
    let calls = (0..10).map(|_| host.call("mcp__deaf__work", load.clone()));
    let calls = calls.map(std::future::IntoFuture::into_future);
    let all = futures_util::future::join_all(calls);
    let healthy = async {
        for _ in 0..20 {
            host.call("mcp__s__echo", json!({"message": "quick"}))
                .await
                .unwrap();
        }
    };
    let (outcomes, ()) = futures_util::future::join(all, healthy).await;
    let not_sent = outcomes.iter().filter(|outcome| {
        matches!(outcome, Err(error) if error.delivery() == Delivery::NotSent && error.is_transient())
    });
    assert!(
        not_sent.count() >= 5,
        "the queue has no bound: {outcomes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_permits_wait_for_their_turn() {
    let script = Script::legacy().tool("sleep");
    let server = MemoryServer::new(script);
    let limits = {
        let mut limits = Limits::default();
        limits.calls_per_server = 2;
        limits
    };
    let host = permissive()
        .limits(limits)
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let began = Instant::now();
    let calls = (0..6).map(|_| host.call("mcp__s__sleep", json!({"ms": 1_000})));
    let outcomes =
        futures_util::future::join_all(calls.map(std::future::IntoFuture::into_future)).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_turn_keep_their_order_unless_they_only_read() {
    let read_only = json!({
        "name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
    });
    let second = Duration::from_secs(1);
    let script = Script::legacy()
        .raw_tool(read_only)
        .tool("change")
        .on("tools/call", [Step::delay(second), Step::text("done")]);
    let (host, server) = host_with(script).await;
    let began = Instant::now();
    let calls = ["look", "look", "look", "change", "change", "look", "look"]
        .map(|tool| host.call(format!("mcp__s__{tool}"), json!({})))
        .into();
    let outcomes = host.call_batch(calls).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(began.elapsed().as_secs(), 4);
    let order: Vec<_> = server
        .received_with("tools/call")
        .iter()
        .map(|call| call["params"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        order,
        ["look", "look", "look", "change", "change", "look", "look"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_trace_of_the_caller_is_passed_on() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (host, server) = host_with(polite()).await;
    host.call("mcp__s__echo", json!({"message": "hi"}))
        .context(CallContext::default().traceparent(trace))
        .await
        .unwrap();
    let call = &server.received_with("tools/call")[0];
    assert_eq!(call["params"]["_meta"]["traceparent"], trace);
}

#[tokio::test(start_paused = true)]
async fn a_call_made_while_its_server_starts_waits_for_it() {
    let late = polite().on(
        "initialize",
        [Step::delay(Duration::from_secs(3)), Step::Default],
    );
    let server = MemoryServer::new(late);
    let host = permissive()
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    let output = host
        .call("mcp__s__echo", json!({"message": "early"}))
        .await
        .unwrap();
    assert_eq!(output.to_text(), "early");
}

#[tokio::test(start_paused = true)]
async fn after_shutdown_nothing_is_called_any_more() {
    let (host, server) = host_with(polite()).await;
    host.shutdown().await;
    let error = host
        .call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::ShuttingDown), "{error}");
    assert!(server.received_with("tools/call").is_empty());
}

/// A host with a server that never answers, and room for one call at a time.
async fn one_at_a_time_for_ever() -> (Host, MemoryServer) {
    let server = MemoryServer::new(Script::legacy().tool("work").on("tools/call", [Step::Hang]));
    let mut limits = Limits::default();
    limits.calls_per_server = 1;
    let mut deadlines = Deadlines::default();
    deadlines.call = Duration::from_secs(1);
    let host = permissive()
        .limits(limits)
        .deadlines(deadlines)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    (host, server)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_when_the_time_is_up_comes_too_late() {
    let (host, server) = one_at_a_time_for_ever().await;
    let calls = (0..5).map(|_| host.call("mcp__s__work", json!({})).into_future());
    let outcomes = futures_util::future::join_all(calls).await;
    let fates = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().unwrap_err().delivery());
    let not_sent = fates.filter(|fate| *fate == Delivery::NotSent).count();
    assert_eq!((not_sent, server.received_with("tools/call").len()), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_turn_when_the_host_ends_is_told_so() {
    let (host, server) = one_at_a_time_for_ever().await;
    let calls = (0..3).map(|_| host.call("mcp__s__work", json!({})).into_future());
    let calls = futures_util::future::join_all(calls);
    let (outcomes, ()) = tokio::join!(calls, async {
        while server.received_with("tools/call").is_empty() {
            tokio::task::yield_now().await;
        }
        host.shutdown().await;
    });
    let told = |outcome: &Result<_, CallError>| matches!(outcome, Err(CallError::ShuttingDown));
    assert_eq!(
        outcomes.iter().filter(|outcome| told(outcome)).count(),
        2,
        "{outcomes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn limits_of_time_can_be_set() {
    let mut deadlines = Deadlines::default();
    deadlines.call = Duration::from_secs(3);
    let server = MemoryServer::new(Script::legacy().tool("work").on("tools/call", [Step::Hang]));
    let host = permissive()
        .deadlines(deadlines)
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    let began = Instant::now();
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn the_future_of_a_call_is_small() {
    use std::future::IntoFuture;

    let host = Host::builder().start().unwrap();
    let call = host.call("mcp__a__b", json!({})).into_future();
    // Allocators keep small pieces at hand; this is where the common one draws the line.
    let size = std::mem::size_of_val(&*call);
    assert!(size <= 1_032, "{size} bytes");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_its_turn_is_no_silence_of_the_server() {
    let mut limits = Limits::default();
    limits.calls_per_server = 1;
    let mut deadlines = Deadlines::default();
    deadlines.idle = Duration::from_secs(5);
    let script = Script::legacy().tool("sleep");
    let host = permissive()
        .limits(limits)
        .deadlines(deadlines)
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let call = || async { host.call("mcp__s__sleep", json!({"ms": 4_000})).await };
    let (first, second) = tokio::join!(call(), call());
    first.unwrap();
    second.unwrap();
}
