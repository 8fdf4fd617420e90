//! Limits that no other test file covers: listings, events, calls in flight, stderr, memory and
//! queued writes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::future::IntoFuture as _;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{InMemory, child, host_with, launch, permissive};
use serde_json::json;
use switchboard::call::Delivery;
use switchboard::limits::Limits;
use switchboard::{CallError, Event, Host, Readiness};
use switchboard_testkit::{Cursors, MemoryServer, Script, Step};
use tokio::time::Instant;

async fn host_with_limits(script: Script, change: impl FnOnce(&mut Limits)) -> Host {
    let mut limits = Limits::default();
    change(&mut limits);
    let server = InMemory(MemoryServer::new(script));
    let host = permissive()
        .limits(limits)
        .connector("s", server)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

#[tokio::test(start_paused = true)]
async fn oversized_structured_content_is_not_validated() {
    let tool = json!({
        "name": "work", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"},
    });
    let result = json!({"content": [], "structuredContent": {"list": vec![0; 100]}});
    let script = Script::legacy()
        .raw_tool(tool)
        .on("tools/call", [Step::Reply(result)]);
    let host = host_with_limits(script, |limits| limits.json_tree_nodes = 50).await;
    let output = host.call("mcp__s__work", json!({})).await.unwrap();
    assert!(output.structured.is_some());
    assert_eq!(
        output.notes,
        ["the structured content was not validated: it is too large"]
    );
}

#[tokio::test(start_paused = true)]
async fn oversized_cursor_ends_the_listing() {
    let mut script = Script::legacy()
        .tool("a")
        .tool("b")
        .paged(1, Cursors::Plain);
    script.cursor_bytes = 2_000;
    let host = host_with_limits(script, |limits| limits.cursor_bytes = 1_000).await;
    assert_eq!(common::tool_names(&host), ["mcp__s__a"]);
    let notes = host.server_details("s").unwrap().notes;
    assert!(notes[0].contains("limit `cursorBytes`"), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn oversized_listing_is_truncated() {
    let script = Script::legacy()
        .tool("a")
        .tool("b")
        .tool("c")
        .paged(1, Cursors::Plain);
    let host = host_with_limits(script, |limits| limits.listing_bytes = 200).await;
    assert!(common::tool_names(&host).len() < 3);
    let notes = host.server_details("s").unwrap().notes;
    assert!(notes[0].contains("limit `listingBytes`"), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn skipped_progress_is_counted() {
    let notes = (0..200).map(Step::progress).chain([Step::text("done")]);
    let script = Script::legacy().tool("work").on("tools/call", notes);
    let host = host_with_limits(script, |limits| limits.progress_backlog = 5).await;
    let mut seen = Vec::new();
    host.call("mcp__s__work", json!({}))
        .on_progress(|note| seen.push((note.progress, note.skipped)))
        .await
        .unwrap();
    assert!(seen.len() < 200, "the backlog is unbounded");
    assert!(seen.is_sorted_by(|(a, _), (b, _)| a < b));
    for pair in seen.windows(2) {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let skipped = pair[1].1 as f64;
        assert!(
            (pair[1].0 - pair[0].0 - 1.0 - skipped).abs() < 0.5,
            "{pair:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn slow_event_receiver_sees_missed_count() {
    let script = Script::legacy().tool("echo");
    let host = host_with_limits(script, |limits| limits.event_backlog = 4).await;
    let mut events = host.events();
    for _ in 0..10 {
        host.call("mcp__s__echo", json!({"message": "hi"}))
            .await
            .unwrap();
    }
    assert_eq!(events.next().await, Some(Event::Missed { count: 16 }));
    assert!(matches!(
        events.next().await,
        Some(Event::CallStarted { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn calls_above_host_limit_queue() {
    let script = Script::legacy().tool("sleep");
    let host = host_with_limits(script, |limits| limits.calls_in_flight = 3).await;
    let start_time = Instant::now();
    // Three calls run in slots that all servers share, and four in slots reserved for this server,
    // so 21 calls of one second take three seconds.
    let calls = (0..21).map(|_| {
        host.call("mcp__s__sleep", json!({"ms": 1_000}))
            .into_future()
    });
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(start_time.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn entry_overrides_concurrency_and_timeout() {
    let script = Script::legacy()
        .tool("sleep")
        .tool("hang")
        .on("tools/call hang", [Step::Hang]);
    let serial = child(&script, "bounds").max_concurrent_calls(NonZeroUsize::MIN);
    let short_timeout = child(&script, "bounds").call_timeout(Duration::from_millis(50));
    let host = permissive()
        .launch(launch("serial", serial))
        .launch(launch("short_timeout", short_timeout))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let start_time = Instant::now();
    let sleep = || host.call("mcp__serial__sleep", json!({"ms": 100}));
    let both = futures_util::future::join(sleep().into_future(), sleep().into_future());
    assert!(matches!(both.await, (Ok(_), Ok(_))));
    assert!(start_time.elapsed() >= Duration::from_millis(200));

    let error = host.call("mcp__short_timeout__hang", json!({})).await;
    assert!(
        matches!(error, Err(CallError::TimedOut { .. })),
        "{error:?}"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn only_stderr_tail_is_kept() {
    let mut limits = Limits::default();
    limits.stderr_tail_bytes = 1_000;
    let flood = Step::StderrFlood {
        bytes: Some(1_000_000),
    };
    let script = Script::legacy().on_start([flood, Step::stderr("the end"), Step::Exit(1)]);
    let host = permissive()
        .no_reconnect()
        .limits(limits)
        .launch(launch("s", child(&script, "long")))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let error = host.server_status("s").unwrap().error.unwrap();
    assert!(error.ends_with("the end"), "{error}");
    assert!(error.len() < 1_200, "{}", error.len());
}

#[tokio::test(start_paused = true)]
async fn batch_is_accepted_only_in_2025_03_26() {
    let batch = r#"[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}},{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"in a batch"}]}}]"#;
    let script = |version: &str| {
        let mut script = Script::legacy()
            .tool("work")
            .on("tools/call", [Step::raw(batch)]);
        script.protocol_version = Some(version.to_owned());
        script
    };
    let host = host_with_limits(script("2025-03-26"), |_| {}).await;
    let mut seen = 0;
    let output = host
        .call("mcp__s__work", json!({}))
        .on_progress(|_| seen += 1)
        .await
        .unwrap();
    assert_eq!(output.to_text(), "in a batch");
    assert_eq!(seen, 1);

    let host = host_with_limits(script("2025-06-18"), |_| {}).await;
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn memory_budget_fails_only_the_large_response() {
    let script = Script::legacy()
        .tool("large")
        .tool("echo")
        .on("tools/call large", [Step::ReplyOfSize(300_000)]);
    let host = host_with_limits(script, |limits| limits.memory_bytes = 200_000).await;
    let error = host.call("mcp__s__large", json!({})).await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::Answered);
    assert!(error.to_string().contains("limit `memoryBytes`"), "{error}");
    let echo = host.call("mcp__s__echo", json!({"message": "small"})).await;
    assert_eq!(echo.unwrap().to_text(), "small");
}

/// The rate limit applies to unsolicited output only, so the paused clock does not move.
#[tokio::test(start_paused = true)]
async fn large_response_is_read_at_full_speed() {
    let script = Script::legacy()
        .tool("large")
        .on("tools/call large", [Step::ReplyOfSize(15_000_000)]);
    let other = InMemory(MemoryServer::new(Script::legacy().tool("echo")));
    let host = permissive()
        .connector("s", InMemory(MemoryServer::new(script)))
        .connector("other", other)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let started = Instant::now();
    let large = host.call("mcp__s__large", json!({})).into_future();
    let echoes = async {
        for _ in 0..100 {
            let echo = host.call("mcp__other__echo", json!({"message": "x"})).await;
            assert_eq!(echo.unwrap().to_text(), "x");
        }
    };
    let (large, ()) = tokio::join!(large, echoes);
    large.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn large_calls_wait_for_write_queue_space() {
    let script = Script::legacy().tool("length");
    let script = script.on("tools/call length", [Step::text("done")]);
    let host = permissive()
        .limits({
            let mut limits = Limits::default();
            limits.write_queue_bytes = 5_000_000;
            limits
        })
        .launch(launch("s", child(&script, "waiting")))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let call = |bytes: usize| {
        let load = json!({"load": "x".repeat(bytes)});
        host.call("mcp__s__length", load).into_future()
    };
    let outcomes = futures_util::future::join_all((0..12).map(|_| call(2_000_000))).await;
    for outcome in outcomes {
        assert_eq!(outcome.unwrap().to_text(), "done");
    }
    // A request larger than `write_queue_bytes` is refused without waiting.
    let error = call(5_000_000).await.unwrap_err();
    assert!(
        error.to_string().contains("limit `writeQueueBytes`"),
        "{error}"
    );
    assert_eq!(error.delivery(), Delivery::NotSent);
    host.shutdown().await;
}

/// The time for which a rate-limited reader would pause is far longer, because the messages have
/// several megabytes. The clock is paused, so only such pauses let time pass.
const WITHOUT_PAUSES: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn requested_progress_is_read_at_full_speed_and_delays_no_other_call() {
    const NOTIFICATIONS: u64 = 10_000;
    let progress = Step::Progress {
        progress: json!(1),
        total: None,
        message: Some("x".repeat(500)),
    };
    let steps = [Step::repeat(NOTIFICATIONS, [progress]), Step::text("done")];
    for script in [Script::legacy(), Script::modern()] {
        let script = script
            .tool("work")
            .tool("echo")
            .on("tools/call work", steps.clone());
        let (host, server) = host_with(script).await;
        let start_time = Instant::now();
        let received = AtomicU64::new(0);
        let work = host
            .call("mcp__s__work", json!({}))
            .on_progress(|progress| {
                received.fetch_add(1 + progress.skipped, Ordering::Relaxed);
            });
        let echo = async {
            server.wait_received("tools/call", 1).await;
            let echo = host.call("mcp__s__echo", json!({"message": "hi"})).await;
            (echo, start_time.elapsed())
        };
        let (work, (echo, echo_time)) = tokio::join!(work.into_future(), echo);
        assert_eq!(work.unwrap().to_text(), "done");
        assert_eq!(echo.unwrap().to_text(), "hi");
        assert!(echo_time < WITHOUT_PAUSES, "{echo_time:?}");
        assert!(
            start_time.elapsed() < WITHOUT_PAUSES,
            "{:?}",
            start_time.elapsed()
        );
        assert_eq!(received.load(Ordering::Relaxed), NOTIFICATIONS);
    }
}
