//! How long a listing is good for, when a server says so.

#![allow(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected shall fail"
)]

mod common;

use std::time::Duration;

use common::{host_with, tool_names};
use serde_json::{Value, json};
use switchboard::Host;
use switchboard_testkit::{MemoryServer, Script, Step};

/// A modern server whose listing is good for so long, and which does not say when it changes.
fn lasting(ttl_ms: Value) -> Script {
    let tools = vec![json!({"name": "new", "inputSchema": {"type": "object"}})];
    let change = [Step::SetTools(tools), Step::text("changed")];
    let mut script = Script::modern()
        .tool("change")
        .on("tools/call change", change);
    script.ttl_ms = ttl_ms;
    script
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

fn listings(server: &MemoryServer) -> usize {
    server.received_with("tools/list").len()
}

#[tokio::test(start_paused = true)]
async fn a_listing_is_made_anew_when_it_is_used_after_its_time() {
    type Use = fn(&Host);
    let uses: [Use; 4] = [
        |host| drop(host.tools()),
        |host| drop(host.status()),
        |host| drop(host.server_status("s").unwrap()),
        |host| drop(host.server_details("s").unwrap()),
    ];
    for make_use in uses {
        let (host, server) = host_with(lasting(json!(60_000))).await;
        host.call("mcp__s__change", json!({})).await.unwrap();
        pass(Duration::from_secs(59)).await;
        make_use(&host);
        pass(Duration::from_secs(60 * 60)).await;
        assert_eq!(listings(&server), 1, "nobody used it since");
        make_use(&host);
        make_use(&host);
        assert_eq!(tool_names(&host), ["mcp__s__change"]);
        pass(Duration::from_secs(59)).await;
        assert_eq!(tool_names(&host), ["mcp__s__new"]);
        assert_eq!(listings(&server), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_a_use_and_is_not_held_up() {
    let (host, server) = host_with(lasting(json!(60_000))).await;
    pass(Duration::from_secs(61)).await;
    let output = host.call("mcp__s__change", json!({})).await;
    assert_eq!(output.unwrap().to_text(), "changed");
    server.wait_received("tools/list", 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_is_not_listed_more_than_once_a_second() {
    let (host, server) = host_with(lasting(json!(1))).await;
    for _ in 0..100 {
        pass(Duration::from_millis(100)).await;
        host.tools();
    }
    let count = listings(&server);
    assert!((5..=11).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_no_time_at_all() {
    let senseless = [
        json!(null),
        json!(0),
        json!(-1),
        json!(-1e300),
        json!("60000"),
        json!(true),
        json!([1]),
    ];
    let long = [json!(1e300), json!(u64::MAX)];
    for ttl in senseless.into_iter().chain(long) {
        let (host, server) = host_with(lasting(ttl.clone())).await;
        for _ in 0..3 {
            pass(Duration::from_secs(60 * 60)).await;
            host.tools();
        }
        pass(Duration::from_secs(10)).await;
        assert_eq!(listings(&server), 1, "{ttl}");
    }
    let (host, server) = host_with(lasting(json!(1_500.5))).await;
    pass(Duration::from_secs(2)).await;
    host.tools();
    server.wait_received("tools/list", 2).await;
}

#[tokio::test(start_paused = true)]
async fn the_page_that_lasts_shortest_decides() {
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
        pass(Duration::from_secs(6)).await;
        host.tools();
        pass(Duration::from_secs(1)).await;
        assert_eq!(listings(&server), expected + 1);
    }
}
