//! Watches of what has to be asked for again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard::call::CallOrigin;
use switchboard::interaction::BoxFuture;
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::watch::{WatchChange, WatchRequest};
use switchboard::{Host, HostBuilder, Interaction, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step, assert_no_process_left, unique_tag};
use tokio::time::{Instant, sleep};

use crate::common::{InMemory, child, host_with, permissive};
use crate::{A_WHILE, Board, ONCE, URI, next, nothing, told};

async fn with_board(builder: HostBuilder) -> (Host, Board) {
    let board = Board::default();
    board.write("empty");
    let host = builder
        .in_process_server("b", board.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let request = WatchRequest::poll_tool("b", "look", json!({}));
    host.watch(request).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    (host, board)
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_polled_at_its_interval_and_only_a_change_is_told() {
    let (host, board) = with_board(permissive()).await;
    assert_eq!(host.watches()[0].id.as_str(), "poll-1");
    nothing(&host).await;
    // A minute of five seconds each, more or less.
    assert!((11..=15).contains(&board.calls()), "{}", board.calls());
    board.write("full");
    let event = next(&host).await;
    let summary = "changed: 1 line added, 1 removed";
    assert_eq!(told(&event), (ONCE, summary, Some("-empty\n+full")));
    nothing(&host).await;
    host.unwatch("poll-1").unwrap();
    let calls = board.calls();
    nothing(&host).await;
    assert_eq!(board.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_polled_without_being_subscribed_to() {
    for script in [Script::legacy(), Script::modern()] {
        let (host, server) = host_with(script.resource(URI, "a")).await;
        let request = WatchRequest::poll_resource("s", URI).every(Duration::from_secs(1));
        host.watch(request).await.unwrap();
        server.catalog().set_resource(URI, "b").await;
        let start_time = Instant::now();
        assert_eq!(next(&host).await.change, ONCE);
        assert!(start_time.elapsed() <= Duration::from_millis(1_100));
        assert!(server.catalog().subscribed().is_empty());
        server.kill();
        server.catalog().set_resource(URI, "c").await;
        assert_eq!(next(&host).await.change, ONCE);
        nothing(&host).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_tool_is_not_called_while_it_is_being_called() {
    let script = Script::legacy().tool("slow").on(
        "tools/call slow",
        [Step::delay(Duration::from_secs(30)), Step::text("done")],
    );
    let (host, server) = host_with(script).await;
    let request = WatchRequest::poll_tool("s", "slow", json!({})).every(Duration::from_secs(1));
    host.watch(request).await.unwrap();
    sleep(Duration::from_secs(300)).await;
    assert!(server.count("tools/call slow") <= 10);
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_once_and_slow_the_poll_down() {
    let (host, board) = with_board(permissive()).await;
    board.write("error: broken");
    let event = next(&host).await;
    assert_eq!(event.change, WatchChange::Failed);
    assert!(event.summary.contains("broken"), "{}", event.summary);
    let calls = board.calls();
    sleep(Duration::from_secs(10 * 60)).await;
    assert_eq!(host.drain_watch_events(), []);
    // Sixteen times five seconds in the end.
    assert!((5..=12).contains(&(board.calls() - calls)));
    board.write("full");
    sleep(Duration::from_secs(100)).await;
    let happened = host.drain_watch_events();
    let happened: Vec<_> = happened.iter().map(|event| event.change).collect();
    assert_eq!(happened, [WatchChange::Recovered, ONCE]);
}

#[tokio::test(start_paused = true)]
async fn a_short_failure_that_nobody_heard_of_is_not_told() {
    let (host, board) = with_board(permissive()).await;
    board.write("error: broken");
    sleep(Duration::from_secs(20)).await;
    board.write("empty");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(host.drain_watch_events(), []);
}

#[tokio::test(start_paused = true)]
async fn rules_hold_for_every_poll() {
    let (host, board) = with_board(permissive()).await;
    let calls = board.calls();
    host.set_rules([Rule::new(Action::Deny, "mcp__b__look").unwrap()]);
    board.write("full");
    let event = next(&host).await;
    assert_eq!(event.change, WatchChange::NotPermitted);
    assert!(
        event.summary.contains("was not called"),
        "{}",
        event.summary
    );
    nothing(&host).await;
    assert_eq!(board.calls(), calls);
    host.set_rules([Rule::new(Action::Allow, "mcp__b__look").unwrap()]);
    sleep(A_WHILE).await;
    let happened = host.drain_watch_events();
    let happened: Vec<_> = happened.iter().map(|event| event.change).collect();
    assert_eq!(happened, [WatchChange::Recovered, ONCE]);
}

/// Says the same to every question, and counts them.
struct Person(Arc<AtomicUsize>, PermissionResponse);

impl Interaction for Person {
    fn can_use_tool(&self, question: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        assert_eq!(question.context.origin, CallOrigin::Watch);
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(self.1))
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_once() {
    for answer in [
        PermissionResponse::Allow,
        PermissionResponse::Deny,
        PermissionResponse::NoInteraction,
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let person = Person(Arc::clone(&asked), answer);
        let (host, board) = with_board(Host::builder().interaction(person)).await;
        sleep(A_WHILE).await;
        let told = host.drain_watch_events();
        let told: Vec<_> = told.iter().map(|event| event.change).collect();
        if answer == PermissionResponse::Allow {
            assert_eq!(told, []);
            assert!(board.calls() > 5);
        } else {
            assert_eq!(told, [WatchChange::NotPermitted]);
            assert_eq!(board.calls(), 0);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_gave_up_is_told_of_once_and_not_asked() {
    let (host, server) = host_with(Script::legacy().resource(URI, "a")).await;
    host.watch(WatchRequest::poll_resource("s", URI))
        .await
        .unwrap();
    host.disable_server("s").await.unwrap();
    let event = next(&host).await;
    assert_eq!(event.change, WatchChange::Failed);
    assert!(event.summary.contains("disabled"), "{}", event.summary);
    let reads = server.count("resources/read");
    nothing(&host).await;
    assert_eq!(server.count("resources/read"), reads);
    host.enable_server("s").await.unwrap();
    assert_eq!(next(&host).await.change, WatchChange::Recovered);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_server_and_not_before() {
    let (host, _) = with_board(permissive()).await;
    host.disconnect("b").await.unwrap();
    let event = next(&host).await;
    assert_eq!(
        told(&event),
        (
            WatchChange::Ended,
            "server b was removed: the watch ended",
            None
        )
    );
    assert_eq!(host.watches(), []);
    nothing(&host).await;
}

#[tokio::test]
async fn a_watch_survives_that_its_entry_is_changed() {
    let tag = unique_tag();
    let script = |text: &str| Script::legacy().resource(URI, text);
    let wanted = |text: &str| {
        let config = child(&script(text), &tag);
        BTreeMap::from([("s".to_owned(), config)])
    };
    let host = permissive().start().unwrap();
    host.set_servers(wanted("before")).await;
    host.watch(WatchRequest::subscription("s", URI))
        .await
        .unwrap();
    host.set_servers(wanted("before")).await;
    assert_eq!(host.set_servers(wanted("after")).await.removed, ["s"]);
    let event = next(&host).await;
    assert_eq!(event.diff.as_deref(), Some("-before\n+after"));
    host.set_servers(BTreeMap::new()).await;
    assert_eq!(next(&host).await.change, WatchChange::Ended);
    host.shutdown().await;
    assert_eq!(host.next_watch_event().await, None);
    assert_no_process_left(&tag).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_dropped_takes_its_watches_with_it() {
    let (host, board) = with_board(permissive()).await;
    drop(host);
    let calls = board.calls();
    sleep(A_WHILE).await;
    assert_eq!(board.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_changed_is_asked_about_anew_and_not_for_ever() {
    let asked = Arc::new(AtomicUsize::new(0));
    let person = Person(Arc::clone(&asked), PermissionResponse::Allow);
    let tool = |number: u64| {
        let what = format!("looks, {number}");
        json!({"name": "look", "description": what, "inputSchema": {"type": "object"}})
    };
    // The first answer counts, so the newest description comes first.
    let listings = (1..=6).rev().map(|number| {
        let listing = json!({"tools": [tool(number)]});
        Step::after(number, [Step::Reply(listing)])
    });
    let script = Script::legacy()
        .raw_tool(tool(0))
        .on("tools/list", listings)
        .on("tools/call look", [Step::text("the same")]);
    let host = Host::builder()
        .interaction(person)
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let poll = WatchRequest::poll_tool("s", "look", json!({}));
    host.watch(poll).await.unwrap();
    for _ in 0..5 {
        sleep(A_WHILE).await;
        assert_eq!(
            host.refresh_tools("s").await.unwrap(),
            switchboard::query::RefreshOutcome::Refreshed
        );
    }
    sleep(A_WHILE).await;
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    let told = next(&host).await;
    assert_eq!(told.change, WatchChange::NotPermitted);
    assert!(
        told.summary.contains("changed too often"),
        "{}",
        told.summary
    );
}
