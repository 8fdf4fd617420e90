//! Limits of watches: their number, the size of diffs, and floods of notifications.

use std::time::Duration;

use serde_json::json;
use switchboard::Readiness;
use switchboard::limits::Limits;
use switchboard::watch::{WatchError, WatchRequest};
use switchboard_testkit::{Flood, MemoryServer, Script};
use tokio::time::{Instant, sleep};

use crate::common::{InMemory, permissive};
use crate::{CHANGED_ONCE, TIMEOUT, TextServer, URI, assert_no_event, next_event};

#[tokio::test(start_paused = true)]
async fn number_of_watches_is_limited() {
    let mut limits = Limits::default();
    limits.watches = 3;
    let server = TextServer::default();
    let builder = permissive()
        .limits(limits)
        .in_process_server("b", server.clone());
    let host = builder
        .in_process_server("c", TextServer::default())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let request = || WatchRequest::poll_tool("b", "look", json!({}));
    for _ in 0..3 {
        host.watch(request()).await.unwrap();
    }
    let error = host.watch(request()).await;
    assert!(matches!(error, Err(WatchError::TooMany { limit: 3 })));
    host.unwatch("poll-2").unwrap();
    host.watch(request()).await.unwrap();
    host.disconnect("b").await.unwrap();
    sleep(TIMEOUT).await;
    // Ended watches count toward the limit until their events are drained.
    let request = || WatchRequest::poll_tool("c", "look", json!({}));
    host.watch(request()).await.unwrap_err();
    assert_eq!(host.drain_watch_events().len(), 3);
    host.watch(request()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn long_content_is_reported_by_size() {
    let server = TextServer::default();
    server.write(&"x".repeat(200_000));
    let host = permissive()
        .in_process_server("b", server.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.watch(WatchRequest::poll_tool("b", "look", json!({})))
        .await
        .unwrap();
    assert_no_event(&host).await;
    server.write(&format!("{}y", "x".repeat(199_999)));
    let event = next_event(&host).await;
    let summary = "changed: 200000 bytes, before 200000 bytes; too large to show the differences";
    assert_eq!((event.summary.as_str(), event.diff), (summary, None));
    server.write("short");
    assert_eq!(next_event(&host).await.diff, None);
    assert_no_event(&host).await;
}

#[tokio::test(start_paused = true)]
async fn diff_is_truncated_around_the_change() {
    let server = TextServer::default();
    let text = |mark: &str| {
        let lines: Vec<_> = (0..1_000).map(|number| format!("{mark}{number}")).collect();
        format!(
            "{}{mark}{}\n{}",
            "a".repeat(500),
            "b".repeat(500),
            lines.join("\n")
        )
    };
    server.write(&text("-"));
    let host = permissive()
        .in_process_server("b", server.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.watch(WatchRequest::poll_tool("b", "look", json!({})))
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    server.write(&text("+"));
    let event = next_event(&host).await;
    let diff = event.diff.unwrap();
    assert_eq!(diff.lines().count(), 41);
    assert!(diff.len() < 4_000, "{}", diff.len());
    let first = diff.lines().next().unwrap();
    assert!(
        first.starts_with("-…aaa") && first.contains("aa-bb"),
        "{first}"
    );
    assert_eq!(diff.lines().last(), Some("… 1962 more lines changed"));
}

#[tokio::test(start_paused = true)]
async fn notification_flood_is_coalesced() {
    for script in [Script::legacy(), Script::modern()] {
        let flooding = MemoryServer::new(script.clone().resource(URI, "a").tool("t"));
        let healthy = MemoryServer::new(script.resource(URI, "a"));
        let host = permissive()
            .connector("flooding", InMemory(flooding.clone()))
            .connector("healthy", InMemory(healthy.clone()))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        for server in ["flooding", "healthy"] {
            host.watch(WatchRequest::subscription(server, URI))
                .await
                .unwrap();
        }
        let start_time = Instant::now();
        let reads = flooding.count("resources/read");
        let flood = async {
            let (catalog, count) = (flooding.catalog(), 10_000);
            catalog
                .flood(&Flood::of_updates(URI, count).per_second(10_000))
                .await;
            catalog
                .flood(&Flood::of("notifications/tools/list_changed", count))
                .await;
            catalog
                .flood(&Flood::of("notifications/resources/list_changed", count))
                .await;
        };
        let healthy_change = async {
            healthy.catalog().set_resource(URI, "b").await;
            let event = next_event(&host).await;
            assert_eq!(
                (event.server.as_str(), event.change),
                ("healthy", CHANGED_ONCE)
            );
        };
        tokio::join!(flood, healthy_change);
        let seconds = usize::try_from(start_time.elapsed().as_secs()).unwrap();
        sleep(TIMEOUT).await;
        // The host reads the resource at most once per second of the flood. Four reads are slack.
        let reads = flooding.count("resources/read") - reads;
        assert!((1..=seconds + 4).contains(&reads), "{reads} in {seconds}");
        assert_eq!(host.drain_watch_events(), []);
        flooding.catalog().set_resource(URI, "b").await;
        assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
    }
}
