//! Tool calls through the whole pipeline, with in-memory scripted servers.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
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
use switchboard::wire_tap::{Direction, WireTap};
use switchboard::{CallContext, CallError, Host, Interaction, Readiness};
use switchboard_config::ServerName;
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::time::{Instant, timeout};

fn echo_and_add() -> Script {
    Script::legacy().tool("echo").tool("add")
}

#[tokio::test(start_paused = true)]
async fn call_returns_text_and_structured_content() {
    for script in [echo_and_add(), Script::modern().tool("echo").tool("add")] {
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
async fn arguments_may_be_owned_or_borrowed() {
    let (host, _) = host_with(echo_and_add()).await;
    let kept = json!({"a": 1, "b": 2});
    let object = kept.as_object().cloned().unwrap();
    let borrowed = host.call("mcp__s__add", &kept).await.unwrap();
    let owned = host.call("mcp__s__add", object).await.unwrap();
    assert_eq!(
        (borrowed.to_text(), owned.to_text()),
        ("3".to_owned(), "3".to_owned())
    );
    let none = host.call("mcp__s__echo", &Value::Null).await.unwrap_err();
    assert!(matches!(none, CallError::InvalidArguments { .. }), "{none}");
}

struct PanickingWireTap;

impl WireTap for PanickingWireTap {
    fn line(&self, _: &ServerName, direction: Direction, line: &str) {
        panic!("{direction:?} {} bytes", line.len());
    }
}

#[tokio::test]
async fn panicking_wire_tap_loses_no_message() {
    let server = MemoryServer::new(echo_and_add());
    let host = permissive()
        .connector("s", InMemory(server))
        .wire_tap(Arc::new(PanickingWireTap))
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
async fn concurrent_calls_get_their_own_responses() {
    let (host, _) = host_with(Script::legacy().tool("sleep").tool("echo")).await;
    let start_time = Instant::now();
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
        start_time.elapsed() < Duration::from_secs(2),
        "the calls did not run concurrently"
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_never_reach_server() {
    let (host, server) = host_with(echo_and_add()).await;
    for (arguments, message) in [
        (json!({"a": 1}), "\"b\" is a required property"),
        (
            json!({"a": "x", "b": 1}),
            "at /a: \"x\" is not of type \"number\"",
        ),
        (json!([1, 2]), "arguments must be a JSON object"),
    ] {
        match host.call("mcp__s__add", arguments).await.unwrap_err() {
            error @ CallError::InvalidArguments { .. } => {
                assert!(error.to_string().ends_with(message), "{error}");
                assert_eq!(error.delivery(), Delivery::NotSent);
            }
            other => panic!("{other}"),
        }
    }
    assert!(server.received_with("tools/call").is_empty());
}

#[tokio::test(start_paused = true)]
async fn unknown_tool_suggests_nearest_name() {
    let (host, _) = host_with(echo_and_add()).await;
    let error = host.call("mcp__s__ech", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no tool named mcp__s__ech; did you mean mcp__s__echo?"
    );
    let error = host.call("something else", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "no tool named something else");
}

/// Gives every permission request the same response and records the requests.
struct FixedPermission {
    answer: PermissionResponse,
    requests: &'static Mutex<Vec<(String, Value, String)>>,
}

impl Interaction for FixedPermission {
    fn can_use_tool(&self, question: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        self.requests.lock().unwrap().push((
            question.tool.to_string(),
            Value::Object(question.arguments.clone()),
            question.context.principal.to_string(),
        ));
        Box::pin(std::future::ready(self.answer))
    }
}

#[tokio::test(start_paused = true)]
async fn call_without_rule_requests_permission() {
    for (answer, is_allowed) in [
        (PermissionResponse::Allow, true),
        (PermissionResponse::Deny, false),
        (PermissionResponse::NoInteraction, false),
    ] {
        let requests: &'static Mutex<_> = Box::leak(Box::default());
        let server = MemoryServer::new(echo_and_add());
        let host = Host::builder()
            .connector("s", InMemory(server.clone()))
            .interaction(FixedPermission { answer, requests })
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        let outcome = host
            .call("mcp__s__echo", json!({"message": "hi"}))
            .context(CallContext::for_principal("ada"))
            .await;
        assert_eq!(outcome.is_ok(), is_allowed);
        assert_eq!(
            *requests.lock().unwrap(),
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
async fn denied_call_never_reaches_server() {
    let server = MemoryServer::new(echo_and_add());
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
async fn progress_arrives_in_order_before_response() {
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
async fn dropped_call_sends_cancellation() {
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
async fn call_past_deadline_is_outcome_unknown() {
    let (host, server) =
        host_with(Script::legacy().tool("work").on("tools/call", [Step::Hang])).await;
    let start_time = Instant::now();
    let deadline = start_time + Duration::from_secs(7);
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
    assert_eq!(start_time.elapsed().as_secs(), 7);
    server.wait_received("notifications/cancelled", 1).await;
    // A call that times out does not end the session.
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status.as_str(), "connected");
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_idle_timeout() {
    let minute = Duration::from_secs(60);
    let lively = Step::repeat(20, [Step::delay(minute), Step::progress(1)]);
    let script = Script::legacy()
        .tool("silent")
        .tool("lively")
        .on("tools/call silent", [Step::Hang])
        .on("tools/call lively", [lively, Step::text("at last")]);
    let (host, _) = host_with(script).await;

    let start_time = Instant::now();
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
    assert_eq!(start_time.elapsed().as_secs(), 5 * 60);

    let output = host.call("mcp__s__lively", json!({})).await.unwrap();
    assert_eq!(output.to_text(), "at last");
}

#[tokio::test(start_paused = true)]
async fn progress_never_extends_total_timeout() {
    let chatter = Step::forever([Step::delay(Duration::from_secs(1)), Step::progress(1)]);
    let (host, _) = host_with(Script::legacy().tool("work").on("tools/call", [chatter])).await;
    let start_time = Instant::now();
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
    assert_eq!(start_time.elapsed().as_secs(), 60 * 60);
}

#[tokio::test(start_paused = true)]
async fn crash_mid_call_is_outcome_unknown() {
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
async fn full_write_queue_fails_only_its_server() {
    let limits = {
        let mut limits = Limits::default();
        limits.write_queue_bytes = 300_000;
        limits
    };
    let stalled = MemoryServer::new(
        Script::legacy()
            .tool("work")
            .serial()
            .on("tools/call work", [Step::StopReading, Step::Hang]),
    );
    let host = permissive()
        .limits(limits)
        .connector("stalled", InMemory(stalled))
        .connector("s", InMemory(MemoryServer::new(echo_and_add())))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let load = json!({"load": "x".repeat(100_000)});
    let calls = (0..10).map(|_| host.call("mcp__stalled__work", load.clone()));
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
        "the write queue is unbounded: {outcomes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_above_concurrency_limit_queue() {
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
    let start_time = Instant::now();
    let calls = (0..6).map(|_| host.call("mcp__s__sleep", json!({"ms": 1_000})));
    let outcomes =
        futures_util::future::join_all(calls.map(std::future::IntoFuture::into_future)).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(start_time.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn batch_runs_only_read_only_calls_concurrently() {
    let read_only = json!({
        "name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
    });
    let second = Duration::from_secs(1);
    let script = Script::legacy()
        .raw_tool(read_only)
        .tool("change")
        .on("tools/call", [Step::delay(second), Step::text("done")]);
    let (host, server) = host_with(script).await;
    let start_time = Instant::now();
    let calls = ["look", "look", "look", "change", "change", "look", "look"]
        .map(|tool| host.call(format!("mcp__s__{tool}"), json!({})))
        .into();
    let outcomes = host.call_batch(calls).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(start_time.elapsed().as_secs(), 4);
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
async fn traceparent_is_sent_to_server() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (host, server) = host_with(echo_and_add()).await;
    host.call("mcp__s__echo", json!({"message": "hi"}))
        .context(CallContext::default().traceparent(trace))
        .await
        .unwrap();
    let call = &server.received_with("tools/call")[0];
    assert_eq!(call["params"]["_meta"]["traceparent"], trace);
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_starting_server() {
    let late = echo_and_add().on(
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
async fn call_after_shutdown_is_refused() {
    let (host, server) = host_with(echo_and_add()).await;
    host.shutdown().await;
    let error = host
        .call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::ShuttingDown), "{error}");
    assert!(server.received_with("tools/call").is_empty());
}

/// Starts a host whose only server never responds to a call. The host sends one call at a time.
async fn host_with_one_call_slot() -> (Host, MemoryServer) {
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
async fn queued_call_past_deadline_is_not_sent() {
    let (host, server) = host_with_one_call_slot().await;
    let calls = (0..5).map(|_| host.call("mcp__s__work", json!({})).into_future());
    let outcomes = futures_util::future::join_all(calls).await;
    let deliveries = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().unwrap_err().delivery());
    let not_sent = deliveries
        .filter(|delivery| *delivery == Delivery::NotSent)
        .count();
    assert_eq!((not_sent, server.received_with("tools/call").len()), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn shutdown_fails_queued_calls() {
    let (host, server) = host_with_one_call_slot().await;
    let calls = (0..3).map(|_| host.call("mcp__s__work", json!({})).into_future());
    let calls = futures_util::future::join_all(calls);
    let (outcomes, ()) = tokio::join!(calls, async {
        while server.received_with("tools/call").is_empty() {
            tokio::task::yield_now().await;
        }
        host.shutdown().await;
    });
    let is_shutting_down =
        |outcome: &Result<_, CallError>| matches!(outcome, Err(CallError::ShuttingDown));
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| is_shutting_down(outcome))
            .count(),
        2,
        "{outcomes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn call_timeout_is_configurable() {
    let mut deadlines = Deadlines::default();
    deadlines.call = Duration::from_secs(3);
    let server = MemoryServer::new(Script::legacy().tool("work").on("tools/call", [Step::Hang]));
    let host = permissive()
        .deadlines(deadlines)
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    let start_time = Instant::now();
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    assert_eq!(start_time.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn call_future_is_small() {
    use std::future::IntoFuture;

    let host = Host::builder().start().unwrap();
    let call = host.call("mcp__a__b", json!({})).into_future();
    // glibc keeps freed chunks of up to 1,032 bytes in a cache per thread. So a boxed call of at
    // most this size is allocated fast.
    let size = std::mem::size_of_val(&*call);
    assert!(size <= 1_032, "{size} bytes");
}

#[tokio::test(start_paused = true)]
async fn queueing_does_not_count_as_idle() {
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
