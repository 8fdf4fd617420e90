//! The tool catalog: paging, limits, change notifications, order and names.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::time::Duration;

use common::{InMemory, host_with, permissive, tool_names};
use serde_json::json;
use switchboard::limits::{Deadlines, Limits};
use switchboard::{Event, Readiness};
use switchboard_testkit::{Cursors, MemoryServer, Script, Step};
use tokio::time::Instant;

fn server_with_tools(count: usize) -> Script {
    (0..count).fold(Script::legacy(), |script, n| script.tool(&format!("t{n}")))
}

#[tokio::test(start_paused = true)]
async fn empty_cursor_does_not_end_paging() {
    for cursors in [Cursors::Plain, Cursors::EmptyFirst] {
        let (host, _) = host_with(server_with_tools(7).paged(2, cursors)).await;
        assert_eq!(tool_names(&host).len(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn cursor_loop_ends_paging() {
    let (host, server) = host_with(server_with_tools(4).paged(2, Cursors::Loop)).await;
    assert!(server.received_with("tools/list").len() <= 4);
    assert!(!tool_names(&host).is_empty());
    let notes = host.server_details("s").unwrap().notes;
    assert!(
        notes
            .iter()
            .any(|note| note.contains("a cursor that the server already returned")),
        "{notes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn endless_pages_stop_at_limit() {
    let mut limits = Limits::default();
    limits.list_pages = 10;
    let server = MemoryServer::new(server_with_tools(2).paged(1, Cursors::Endless));
    let host = permissive()
        .limits(limits)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(server.received_with("tools/list").len(), 10);
    let notes = host.server_details("s").unwrap().notes;
    assert!(
        notes.iter().any(|note| note.contains("limit `listPages`")),
        "{notes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn error_of_slow_listing_names_the_startup_limit() {
    let script = server_with_tools(1)
        .on(
            "initialize",
            [Step::delay(Duration::from_secs(2)), Step::Default],
        )
        .on("tools/list", [Step::Hang]);
    let mut deadlines = Deadlines::default();
    deadlines.startup = Duration::from_secs(5);
    let host = permissive()
        .deadlines(deadlines)
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let error = host.server_status("s").unwrap().error.unwrap();
    assert!(error.contains("no response within 5s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn excess_tools_are_dropped() {
    let mut limits = Limits::default();
    limits.tools_per_server = 5;
    let server = MemoryServer::new(server_with_tools(9));
    let host = permissive()
        .limits(limits)
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(tool_names(&host).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn malformed_tool_is_skipped_with_note() {
    let script = Script::legacy()
        .tool("good")
        .raw_tool(json!({"name": "bad"}))
        .tool("also-good");
    let (host, _) = host_with(script).await;
    assert_eq!(tool_names(&host), ["mcp__s__good", "mcp__s__also-good"]);
    assert_eq!(
        host.server_details("s").unwrap().notes,
        ["tool bad: it has no `inputSchema`"]
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_change_notifications_are_coalesced() {
    let announce = Step::background([
        Step::delay(Duration::from_secs(1)),
        Step::SetTools(vec![
            switchboard_testkit::tool("echo"),
            switchboard_testkit::tool("new"),
        ]),
        Step::repeat(1_000, [Step::tools_changed()]),
    ]);
    let script = Script::legacy()
        .tool("echo")
        .tool("old")
        .on("notifications/initialized", [announce]);
    let (host, server) = host_with(script).await;
    let mut events = host.events();
    assert_eq!(tool_names(&host), ["mcp__s__echo", "mcp__s__old"]);
    let (added, removed, changed) = loop {
        if let Event::ToolsChanged {
            added,
            removed,
            changed,
            ..
        } = events.next().await.unwrap()
        {
            break (added, removed, changed);
        }
    };
    assert_eq!(added, ["mcp__s__new".into()]);
    assert_eq!(removed, ["mcp__s__old".into()]);
    assert_eq!(changed, []);
    assert_eq!(tool_names(&host), ["mcp__s__echo", "mcp__s__new"]);
    tokio::time::sleep_until(Instant::now() + Duration::from_secs(10)).await;
    let list_requests = server.received_with("tools/list").len();
    assert!(
        (2..=4).contains(&list_requests),
        "{list_requests} list requests for one change"
    );
}

#[tokio::test(start_paused = true)]
async fn modern_server_is_subscribed_for_tool_changes() {
    let change = [
        Step::SetTools(vec![switchboard_testkit::tool("new")]),
        Step::tools_changed(),
        Step::text("changed"),
    ];
    let script = Script::modern()
        .tool("change")
        .on("tools/call change", change);
    let (host, server) = host_with(script).await;
    let listen = &server.wait_received("subscriptions/listen", 1).await[0];
    assert_eq!(
        listen["params"]["notifications"],
        json!({"toolsListChanged": true})
    );
    let mut events = host.events();
    host.call("mcp__s__change", json!({})).await.unwrap();
    while !matches!(events.next().await.unwrap(), Event::ToolsChanged { .. }) {}
    assert_eq!(tool_names(&host), ["mcp__s__new"]);
}

#[tokio::test(start_paused = true)]
async fn catalog_order_follows_config() {
    let slow = server_with_tools(2).on(
        "initialize",
        [Step::delay(Duration::from_secs(3)), Step::Default],
    );
    let host = permissive()
        .connector("b", InMemory(MemoryServer::new(slow)))
        .connector("a", InMemory(MemoryServer::new(server_with_tools(2))))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let expected = ["mcp__b__t0", "mcp__b__t1", "mcp__a__t0", "mcp__a__t1"];
    assert_eq!(tool_names(&host), expected);
    host.reconnect("b").await.unwrap();
    assert_eq!(tool_names(&host), expected);
}

#[tokio::test(start_paused = true)]
async fn invalid_tool_names_are_encoded_and_callable() {
    let odd = ["läuft", "a b", "a/b", "x__y", "_lead", &"long".repeat(40)];
    let script = odd
        .iter()
        .fold(Script::legacy(), |script, name| script.tool(name));
    let script = script.on("tools/call", [Step::text("found")]);
    let server = MemoryServer::new(script);
    let host = permissive()
        .connector("my server__x", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let names = tool_names(&host);
    assert_eq!(names.len(), odd.len());
    for (wire, raw) in names.iter().zip(odd) {
        let is_valid = wire
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
        assert!(is_valid && wire.len() <= 64, "{wire}");
        host.call(wire.as_str(), json!({})).await.unwrap();
        let called = server.received_with("tools/call").pop().unwrap();
        assert_eq!(called["params"]["name"], raw);
    }
}

#[tokio::test(start_paused = true)]
async fn catalog_snapshot_is_immutable() {
    let (host, _) = host_with(server_with_tools(2)).await;
    let before = host.catalog();
    host.disable_server("s").await.unwrap();
    assert_eq!(before.tools().len(), 2);
    let after = host.catalog();
    assert!(after.tools().is_empty());
    assert!(after.revision() > before.revision());
}
