//! However much servers say and however much is watched: it stays within its bounds.

use std::time::Duration;

use serde_json::json;
use switchboard::Readiness;
use switchboard::limits::Limits;
use switchboard::watch::{WatchError, WatchRequest};
use switchboard_testkit::{Flood, MemoryServer, Script};
use tokio::time::{Instant, sleep};

use crate::common::{InMemory, permissive};
use crate::{A_WHILE, Board, ONCE, URI, next, nothing};

#[tokio::test(start_paused = true)]
async fn there_are_no_more_watches_than_the_limit_says() {
    let mut limits = Limits::default();
    limits.watches = 3;
    let board = Board::default();
    let builder = permissive()
        .limits(limits)
        .in_process_server("b", board.clone());
    let host = builder
        .in_process_server("c", Board::default())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let request = || WatchRequest::poll_tool("b", "look", json!({}));
    for _ in 0..3 {
        host.watch(request()).await.unwrap();
    }
    let refused = host.watch(request()).await;
    assert!(matches!(refused, Err(WatchError::TooMany { limit: 3 })));
    host.unwatch("poll-2").unwrap();
    host.watch(request()).await.unwrap();
    host.disconnect("b").await.unwrap();
    sleep(A_WHILE).await;
    // They are over, and nobody has heard of it.
    let request = || WatchRequest::poll_tool("c", "look", json!({}));
    host.watch(request()).await.unwrap_err();
    assert_eq!(host.drain_watch_events().len(), 3);
    host.watch(request()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_long_content_is_told_of_by_its_size() {
    let board = Board::default();
    board.write(&"x".repeat(200_000));
    let host = permissive()
        .in_process_server("b", board.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.watch(WatchRequest::poll_tool("b", "look", json!({})))
        .await
        .unwrap();
    nothing(&host).await;
    board.write(&format!("{}y", "x".repeat(199_999)));
    let event = next(&host).await;
    let summary = "changed: 200000 bytes, before 200000 bytes; too large to show the differences";
    assert_eq!((event.summary.as_str(), event.diff), (summary, None));
    board.write("short");
    assert_eq!(next(&host).await.diff, None);
    nothing(&host).await;
}

#[tokio::test(start_paused = true)]
async fn a_diff_is_short_and_shows_where_a_long_line_differs() {
    let board = Board::default();
    let text = |mark: &str| {
        let lines: Vec<_> = (0..1_000).map(|number| format!("{mark}{number}")).collect();
        format!(
            "{}{mark}{}\n{}",
            "a".repeat(500),
            "b".repeat(500),
            lines.join("\n")
        )
    };
    board.write(&text("-"));
    let host = permissive()
        .in_process_server("b", board.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.watch(WatchRequest::poll_tool("b", "look", json!({})))
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    board.write(&text("+"));
    let event = next(&host).await;
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
async fn a_flood_of_notices_is_coalesced_and_holds_up_nobody() {
    for script in [Script::legacy(), Script::modern()] {
        let loud = MemoryServer::new(script.clone().resource(URI, "a").tool("t"));
        let calm = MemoryServer::new(script.resource(URI, "a"));
        let host = permissive()
            .connector("loud", InMemory(loud.clone()))
            .connector("calm", InMemory(calm.clone()))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        for server in ["loud", "calm"] {
            host.watch(WatchRequest::subscription(server, URI))
                .await
                .unwrap();
        }
        let start_time = Instant::now();
        let reads = loud.count("resources/read");
        let flooding = async {
            let (offer, count) = (loud.catalog(), 10_000);
            offer
                .flood(&Flood::of_updates(URI, count).per_second(10_000))
                .await;
            offer
                .flood(&Flood::of("notifications/tools/list_changed", count))
                .await;
            offer
                .flood(&Flood::of("notifications/resources/list_changed", count))
                .await;
        };
        let meanwhile = async {
            calm.catalog().set_resource(URI, "b").await;
            let event = next(&host).await;
            assert_eq!((event.server.as_str(), event.change), ("calm", ONCE));
        };
        tokio::join!(flooding, meanwhile);
        let seconds = usize::try_from(start_time.elapsed().as_secs()).unwrap();
        sleep(A_WHILE).await;
        // No more than one for each burst.
        let reads = loud.count("resources/read") - reads;
        assert!((1..=seconds + 4).contains(&reads), "{reads} in {seconds}");
        assert_eq!(host.drain_watch_events(), []);
        loud.catalog().set_resource(URI, "b").await;
        assert_eq!(next(&host).await.change, ONCE);
    }
}
