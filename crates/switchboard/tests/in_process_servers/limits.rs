//! Limits of in-process servers: the same limits apply as to other servers, and a handler that
//! panics or hangs affects only its own call.

use std::future::IntoFuture as _;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use switchboard::call::Delivery;
use switchboard::limits::Limits;
use switchboard::{CallError, Host, Readiness};
use switchboard_config::ServerConfig;
use tokio::time::{Instant, timeout};

use crate::common::{launch, permissive};
use crate::fixture_server::NoteServer;
use crate::{host_with_server, wait_until};

async fn host_with_limits(server: &Arc<NoteServer>, change: impl FnOnce(&mut Limits)) -> Host {
    let mut limits = Limits::default();
    change(&mut limits);
    let host = permissive()
        .limits(limits)
        .in_process_server("b", Arc::clone(server))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

#[tokio::test(start_paused = true)]
async fn hanging_handler_times_out_and_blocks_nothing() {
    let server = NoteServer::new();
    let config = ServerConfig::sdk("board").call_timeout(Duration::from_secs(5));
    let host = permissive()
        .sdk_server("board", Arc::clone(&server))
        .launch(launch("b", config))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let start_time = Instant::now();
    let mut hanging = Box::pin(host.call("mcp__b__wait", json!({})).into_future());
    assert!(timeout(Duration::from_secs(1), &mut hanging).await.is_err());
    host.call("mcp__b__look", json!({})).await.unwrap();
    let error = hanging.await.unwrap_err();
    assert_eq!(start_time.elapsed(), Duration::from_secs(5));
    let CallError::TimedOut { delivery, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(delivery, Delivery::Unknown);
    assert_eq!(server.running(), 0);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn busy_handler_is_stopped_at_deadline() {
    let server = NoteServer::new();
    let config = ServerConfig::sdk("board").call_timeout(Duration::from_secs(5));
    let host = permissive()
        .sdk_server("board", Arc::clone(&server))
        .launch(launch("b", config))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let outcome = host.call("mcp__b__busy", json!({})).await;
    assert!(
        matches!(outcome, Err(CallError::TimedOut { .. })),
        "{outcome:?}"
    );
    assert_eq!(server.running(), 0);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_call_drops_its_handler() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let call = host.call("mcp__b__wait", json!({})).into_future();
    assert!(timeout(Duration::from_secs(1), call).await.is_err());
    assert_eq!(
        (server.calls.load(Ordering::Relaxed), server.running()),
        (1, 0)
    );
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn disconnect_makes_running_call_outcome_unknown() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let call = host.call("mcp__b__wait", json!({})).into_future();
    let (outcome, ()) = tokio::join!(call, async {
        wait_until(|| server.running() == 1).await;
        host.disconnect("b").await.unwrap();
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_eq!(server.running(), 0);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_are_limited() {
    let server = NoteServer::new();
    let config = ServerConfig::sdk("board")
        .max_concurrent_calls(NonZeroUsize::new(2).unwrap())
        .call_timeout(Duration::from_secs(5));
    let host = permissive()
        .sdk_server("board", Arc::clone(&server))
        .launch(launch("b", config))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let calls = (0..6).map(|_| host.call("mcp__b__wait", json!({})).into_future());
    for outcome in join_all(calls).await {
        assert!(outcome.is_err());
    }
    assert_eq!(server.max_running.load(Ordering::Relaxed), 2);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn results_and_listings_are_truncated() {
    let server = NoteServer::new();
    let host = host_with_limits(&server, |limits| {
        limits.tools_per_server = 5;
        limits.content_blocks = 10;
        limits.result_text_bytes = 1_000;
    })
    .await;
    assert_eq!(host.tools().len(), 5);
    let output = host.call("mcp__b__long", json!({})).await.unwrap();
    assert!(output.to_text().len() < 2_000);
    let output = host.call("mcp__b__many", json!({})).await.unwrap();
    assert!(output.notes[0].contains("90"), "{:?}", output.notes);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn handler_panic_fails_only_its_call() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let error = host.call("mcp__b__panic", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server b returned an error for panic: the tool panic panicked (code -32603)"
    );
    let mut seen = Vec::new();
    let call = host.call("mcp__b__progress", json!({}));
    let call = call.on_progress(|progress| seen.push(progress.progress));
    assert!(call.await.unwrap().is_error);
    assert_eq!(seen, [1.0]);
    host.shutdown().await;
}
