//! Watches that poll a tool or a resource.

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
use crate::{CHANGED_ONCE, TIMEOUT, TextServer, URI, assert_no_event, change_of, next_event};

async fn host_with_poll(builder: HostBuilder) -> (Host, TextServer) {
    let server = TextServer::default();
    server.write("empty");
    let host = builder
        .in_process_server("b", server.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let request = WatchRequest::poll_tool("b", "look", json!({}));
    host.watch(request).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    (host, server)
}

#[tokio::test(start_paused = true)]
async fn polled_tool_reports_only_changes() {
    let (host, server) = host_with_poll(permissive()).await;
    assert_eq!(host.watches()[0].id.as_str(), "poll-1");
    assert_no_event(&host).await;
    // The default interval is five seconds, with jitter.
    assert!((11..=15).contains(&server.calls()), "{}", server.calls());
    server.write("full");
    let event = next_event(&host).await;
    let summary = "changed: 1 line added, 1 removed";
    assert_eq!(
        change_of(&event),
        (CHANGED_ONCE, summary, Some("-empty\n+full"))
    );
    assert_no_event(&host).await;
    host.unwatch("poll-1").unwrap();
    let calls = server.calls();
    assert_no_event(&host).await;
    assert_eq!(server.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn polled_resource_is_not_subscribed() {
    for script in [Script::legacy(), Script::modern()] {
        let (host, server) = host_with(script.resource(URI, "a")).await;
        let request = WatchRequest::poll_resource("s", URI).every(Duration::from_secs(1));
        host.watch(request).await.unwrap();
        server.catalog().set_resource(URI, "b").await;
        let start_time = Instant::now();
        assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
        assert!(start_time.elapsed() <= Duration::from_millis(1_100));
        assert!(server.catalog().subscribed().is_empty());
        server.kill();
        server.catalog().set_resource(URI, "c").await;
        assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
        assert_no_event(&host).await;
    }
}

#[tokio::test(start_paused = true)]
async fn polls_of_one_tool_do_not_overlap() {
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
async fn poll_failure_is_reported_once_and_backs_off() {
    let (host, server) = host_with_poll(permissive()).await;
    server.write("error: broken");
    let event = next_event(&host).await;
    assert_eq!(event.change, WatchChange::Failed);
    assert!(event.summary.contains("broken"), "{}", event.summary);
    let calls = server.calls();
    sleep(Duration::from_secs(10 * 60)).await;
    assert_eq!(host.drain_watch_events(), []);
    // The backoff grows to at most sixteen times the interval.
    assert!((5..=12).contains(&(server.calls() - calls)));
    server.write("full");
    sleep(Duration::from_secs(100)).await;
    let changes = host.drain_watch_events();
    let changes: Vec<_> = changes.iter().map(|event| event.change).collect();
    assert_eq!(changes, [WatchChange::Recovered, CHANGED_ONCE]);
}

#[tokio::test(start_paused = true)]
async fn unreported_poll_failure_is_dropped() {
    let (host, server) = host_with_poll(permissive()).await;
    server.write("error: broken");
    sleep(Duration::from_secs(20)).await;
    server.write("empty");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(host.drain_watch_events(), []);
}

#[tokio::test(start_paused = true)]
async fn rules_apply_to_every_poll() {
    let (host, server) = host_with_poll(permissive()).await;
    let calls = server.calls();
    host.set_rules([Rule::new(Action::Deny, "mcp__b__look").unwrap()]);
    server.write("full");
    let event = next_event(&host).await;
    assert_eq!(event.change, WatchChange::NotPermitted);
    assert!(
        event.summary.contains("was not called"),
        "{}",
        event.summary
    );
    assert_no_event(&host).await;
    assert_eq!(server.calls(), calls);
    host.set_rules([Rule::new(Action::Allow, "mcp__b__look").unwrap()]);
    sleep(TIMEOUT).await;
    let changes = host.drain_watch_events();
    let changes: Vec<_> = changes.iter().map(|event| event.change).collect();
    assert_eq!(changes, [WatchChange::Recovered, CHANGED_ONCE]);
}

/// Gives the same response to every permission request and counts the requests.
struct CountingPermission(Arc<AtomicUsize>, PermissionResponse);

impl Interaction for CountingPermission {
    fn can_use_tool(&self, question: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        assert_eq!(question.context.origin, CallOrigin::Watch);
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(self.1))
    }
}

#[tokio::test(start_paused = true)]
async fn poll_requests_permission_once() {
    for answer in [
        PermissionResponse::Allow,
        PermissionResponse::Deny,
        PermissionResponse::NoInteraction,
    ] {
        let request_count = Arc::new(AtomicUsize::new(0));
        let interaction = CountingPermission(Arc::clone(&request_count), answer);
        let (host, server) = host_with_poll(Host::builder().interaction(interaction)).await;
        sleep(TIMEOUT).await;
        let changes = host.drain_watch_events();
        let changes: Vec<_> = changes.iter().map(|event| event.change).collect();
        if answer == PermissionResponse::Allow {
            assert_eq!(changes, []);
            assert!(server.calls() > 5);
        } else {
            assert_eq!(changes, [WatchChange::NotPermitted]);
            assert_eq!(server.calls(), 0);
        }
        assert_eq!(request_count.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn disabled_server_is_reported_once_and_not_polled() {
    let (host, server) = host_with(Script::legacy().resource(URI, "a")).await;
    host.watch(WatchRequest::poll_resource("s", URI))
        .await
        .unwrap();
    host.disable_server("s").await.unwrap();
    let event = next_event(&host).await;
    assert_eq!(event.change, WatchChange::Failed);
    assert!(event.summary.contains("disabled"), "{}", event.summary);
    let reads = server.count("resources/read");
    assert_no_event(&host).await;
    assert_eq!(server.count("resources/read"), reads);
    host.enable_server("s").await.unwrap();
    assert_eq!(next_event(&host).await.change, WatchChange::Recovered);
}

#[tokio::test(start_paused = true)]
async fn removed_server_ends_its_watch() {
    let (host, _) = host_with_poll(permissive()).await;
    host.disconnect("b").await.unwrap();
    let event = next_event(&host).await;
    assert_eq!(
        change_of(&event),
        (
            WatchChange::Ended,
            "server b was removed: the watch ended",
            None
        )
    );
    assert_eq!(host.watches(), []);
    assert_no_event(&host).await;
}

#[tokio::test]
async fn watch_survives_changed_entry() {
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
    let event = next_event(&host).await;
    assert_eq!(event.diff.as_deref(), Some("-before\n+after"));
    host.set_servers(BTreeMap::new()).await;
    assert_eq!(next_event(&host).await.change, WatchChange::Ended);
    host.shutdown().await;
    assert_eq!(host.next_watch_event().await, None);
    assert_no_process_left(&tag).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_host_ends_its_watches() {
    let (host, server) = host_with_poll(permissive()).await;
    drop(host);
    let calls = server.calls();
    sleep(TIMEOUT).await;
    assert_eq!(server.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn changed_tool_prompts_at_most_three_times() {
    let request_count = Arc::new(AtomicUsize::new(0));
    let interaction = CountingPermission(Arc::clone(&request_count), PermissionResponse::Allow);
    let tool = |number: u64| {
        let description = format!("looks, {number}");
        json!({"name": "look", "description": description, "inputSchema": {"type": "object"}})
    };
    // The first matching step answers, so the steps are in descending order.
    let listings = (1..=6).rev().map(|number| {
        let listing = json!({"tools": [tool(number)]});
        Step::after(number, [Step::Reply(listing)])
    });
    let script = Script::legacy()
        .raw_tool(tool(0))
        .on("tools/list", listings)
        .on("tools/call look", [Step::text("the same")]);
    let host = Host::builder()
        .interaction(interaction)
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let poll = WatchRequest::poll_tool("s", "look", json!({}));
    host.watch(poll).await.unwrap();
    for _ in 0..5 {
        sleep(TIMEOUT).await;
        assert_eq!(
            host.refresh_tools("s").await.unwrap(),
            switchboard::query::RefreshOutcome::Refreshed
        );
    }
    sleep(TIMEOUT).await;
    assert_eq!(request_count.load(Ordering::Relaxed), 3);
    let event = next_event(&host).await;
    assert_eq!(event.change, WatchChange::NotPermitted);
    assert!(
        event.summary.contains("changed too often"),
        "{}",
        event.summary
    );
}
