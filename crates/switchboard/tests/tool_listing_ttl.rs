//! The `ttlMs` of a tool listing: the host fetches an expired listing again when it is used next.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod common;

use std::time::Duration;

use common::{host_with, tool_names};
use serde_json::{Value, json};
use switchboard::Host;
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::time::sleep;

/// A modern-era server whose tool listing has this `ttlMs`. Its tool `change` replaces the tools
/// without a `list_changed` notification.
fn server_with_ttl(ttl_ms: Value) -> Script {
    let tools = vec![json!({"name": "new", "inputSchema": {"type": "object"}})];
    let change = [Step::SetTools(tools), Step::text("changed")];
    let mut script = Script::modern()
        .tool("change")
        .on("tools/call change", change);
    script.ttl_ms = ttl_ms;
    script
}

fn list_requests(server: &MemoryServer) -> usize {
    server.received_with("tools/list").len()
}

#[tokio::test(start_paused = true)]
async fn expired_listing_is_refreshed_on_use() {
    type Use = fn(&Host);
    let uses: [Use; 4] = [
        |host| drop(host.tools()),
        |host| drop(host.status()),
        |host| drop(host.server_status("s").unwrap()),
        |host| drop(host.server_details("s").unwrap()),
    ];
    for use_listing in uses {
        let (host, server) = host_with(server_with_ttl(json!(60_000))).await;
        host.call("mcp__s__change", json!({})).await.unwrap();
        sleep(Duration::from_secs(59)).await;
        use_listing(&host);
        sleep(Duration::from_secs(60 * 60)).await;
        assert_eq!(list_requests(&server), 1, "refreshed without a use");
        use_listing(&host);
        use_listing(&host);
        assert_eq!(tool_names(&host), ["mcp__s__change"]);
        sleep(Duration::from_secs(59)).await;
        assert_eq!(tool_names(&host), ["mcp__s__new"]);
        assert_eq!(list_requests(&server), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn call_refreshes_listing_without_waiting() {
    let (host, server) = host_with(server_with_ttl(json!(60_000))).await;
    sleep(Duration::from_secs(61)).await;
    let output = host.call("mcp__s__change", json!({})).await;
    assert_eq!(output.unwrap().to_text(), "changed");
    server.wait_received("tools/list", 2).await;
}

#[tokio::test(start_paused = true)]
async fn listing_refresh_is_limited_to_once_per_second() {
    let (host, server) = host_with(server_with_ttl(json!(1))).await;
    for _ in 0..100 {
        sleep(Duration::from_millis(100)).await;
        host.tools();
    }
    let count = list_requests(&server);
    assert!((5..=11).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn invalid_or_huge_ttl_never_expires() {
    let invalid = [
        json!(null),
        json!(0),
        json!(-1),
        json!(-1e300),
        json!("60000"),
        json!(true),
        json!([1]),
    ];
    let huge = [json!(1e300), json!(u64::MAX)];
    for ttl in invalid.into_iter().chain(huge) {
        let (host, server) = host_with(server_with_ttl(ttl.clone())).await;
        for _ in 0..3 {
            sleep(Duration::from_secs(60 * 60)).await;
            host.tools();
        }
        sleep(Duration::from_secs(10)).await;
        assert_eq!(list_requests(&server), 1, "{ttl}");
    }
    let (host, server) = host_with(server_with_ttl(json!(1_500.5))).await;
    sleep(Duration::from_secs(2)).await;
    host.tools();
    server.wait_received("tools/list", 2).await;
}

#[tokio::test(start_paused = true)]
async fn shortest_ttl_of_all_pages_counts() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let page = |name: &str, ttl: Value, cursor: Value| {
        let mut page = json!({"resultType": "complete", "tools": [tool(name)], "ttlMs": ttl});
        if !cursor.is_null() {
            page["nextCursor"] = cursor;
        }
        Step::Reply(page)
    };
    let first = page("a", json!(1_000_000), json!("next"));
    for (ttl, expected) in [(json!(5_000), 2), (json!(null), 1)] {
        let steps = [
            Step::until(1, [first.clone()]),
            Step::after(2, [page("b", ttl, json!(null))]),
        ];
        let script = Script::modern().on("tools/list", steps);
        let (host, server) = host_with(script).await;
        sleep(Duration::from_secs(6)).await;
        host.tools();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(list_requests(&server), expected + 1);
    }
}
