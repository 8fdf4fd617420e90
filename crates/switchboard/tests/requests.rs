//! Requests of agents: discovery of lazy servers, and requests that are limited to some servers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{child, launch, permissive, tool_names};
use serde_json::{Value, json};
use switchboard::call::ServerSelection;
use switchboard::permission::PermissionResponse;
use switchboard::registry::{Registry, ToolExecutor};
use switchboard::watch::WatchRequest;
use switchboard::{CallContext, CallError, Event, Host, HostBuilder, Readiness};
use switchboard_testkit::{Script, processes_with_tag, unique_tag};

/// Adds lazy servers with these names, each with the tool `echo` and a resource.
fn with_lazy(builder: HostBuilder, names: &[&str], tag: &str) -> HostBuilder {
    let script = Script::legacy().tool("echo").resource("note://x", "text");
    let add = |builder: HostBuilder, name: &&str| {
        let mut config = child(&script, tag);
        config.lazy = true;
        builder.launch(launch(name, config))
    };
    names.iter().fold(builder, add)
}

fn lazy_host(names: &[&str]) -> (Host, String) {
    let tag = unique_tag();
    let host = with_lazy(permissive(), names, &tag).start().unwrap();
    (host, tag)
}

fn names_of(registry: &Registry) -> Vec<String> {
    let tools = registry.definitions().into_iter();
    let names = tools.map(|tool| tool.name);
    names.filter(|name| name.starts_with("mcp__")).collect()
}

async fn execute_json(
    registry: &Registry,
    tool: &str,
    input: Value,
    context: CallContext,
) -> Value {
    let output = registry.execute(tool, input, context).await;
    assert!(!output.is_error, "{}", output.to_text());
    serde_json::from_str(&output.to_text()).unwrap()
}

#[tokio::test]
async fn waiting_discovers_lazy_servers() {
    let (host, tag) = lazy_host(&["a", "b"]);
    host.wait_for(Readiness::Settled).await;
    assert!(processes_with_tag(&tag).is_empty());
    let only_b = Readiness::Servers(vec![common::name("b")]);
    host.wait_for(only_b).await;
    assert_eq!(tool_names(&host), ["mcp__b__echo"]);
    host.wait_for(Readiness::All).await;
    assert_eq!(tool_names(&host), ["mcp__a__echo", "mcp__b__echo"]);
    host.shutdown().await;
}

#[tokio::test]
async fn first_listing_discovers_lazy_servers() {
    let (host, _tag) = lazy_host(&["a", "b"]);
    let mut events = host.events();
    let registry = Registry::new(host.clone());
    assert_eq!(names_of(&registry), [""; 0]);
    let mut listed = 0;
    while listed < 2 {
        if let Some(Event::ToolsChanged { added, .. }) = events.next().await {
            listed += added.len();
        }
    }
    assert_eq!(names_of(&registry).len(), 2);
    host.shutdown().await;
}

#[tokio::test]
async fn listing_of_request_waits_for_its_servers_only() {
    let (host, tag) = lazy_host(&["a", "b"]);
    let registry = Registry::new(host.clone());
    let context = CallContext::default().servers(["b", "unknown"]);
    let tools = registry.definitions_for(&context).await;
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].name, "mcp__b__echo");
    assert_eq!(processes_with_tag(&tag).len(), 1);
    let all = registry.definitions_for(&CallContext::default()).await;
    let all: Vec<_> = all.iter().map(|tool| tool.name.as_str()).collect();
    // `a` appeared after `b` was listed.
    assert_eq!(all, ["mcp__b__echo", "mcp__a__echo"]);
    host.shutdown().await;
}

#[tokio::test]
async fn management_tools_discover_lazy_servers() {
    for (tool, input, expected) in [
        (
            "WaitForMcpServers",
            json!({}),
            json!([{"server": "a", "status": "connected"}]),
        ),
        (
            "RefreshMcpTools",
            json!({"server": "a"}),
            json!([{
                "server": "a", "status": "refreshed", "toolCount": 1,
                "added": ["mcp__a__echo"], "removed": [],
            }]),
        ),
    ] {
        let (host, _tag) = lazy_host(&["a"]);
        let mut registry = Registry::new(host.clone());
        registry.register_management_tools().unwrap();
        let context = CallContext::default();
        assert_eq!(
            execute_json(&registry, tool, input, context).await,
            expected
        );
        assert_eq!(names_of(&registry), ["mcp__a__echo"]);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn denied_server_is_not_discovered() {
    let tag = unique_tag();
    let host = with_lazy(permissive(), &["a"], &tag)
        .deny("mcp__a")
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert!(host.definitions().is_empty());
    assert!(
        host.definitions_for(&CallContext::default())
            .await
            .is_empty()
    );
    assert!(processes_with_tag(&tag).is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn failed_discovery_does_not_block_the_listing() {
    let tag = unique_tag();
    let mut missing = switchboard_config::ServerConfig::stdio("/no/such/program", [""; 0]);
    missing.lazy = true;
    let host = with_lazy(
        permissive().launch(launch("missing", missing)),
        &["a"],
        &tag,
    )
    .start()
    .unwrap();
    let tools = host.definitions_for(&CallContext::default()).await;
    assert_eq!(tools.len(), 1);
    assert_eq!(
        host.server_status("missing").unwrap().status.as_str(),
        "failed"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn call_outside_the_request_is_refused_before_permission_is_asked() {
    let tag = unique_tag();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let builder = Host::builder().can_use_tool(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(PermissionResponse::Allow)
    });
    let host = with_lazy(builder, &["a", "b"], &tag).start().unwrap();
    let context = CallContext::default().servers(["b"]);
    // Once while the tool is not known, and once with the tool in the catalog.
    for known in [false, true] {
        if known {
            host.wait_for(Readiness::All).await;
        }
        let call = host.call("mcp__a__echo", json!({"message": "m"}));
        let error = call.context(context.clone()).await.unwrap_err();
        assert!(
            matches!(error, CallError::ServerNotSelected { .. }),
            "{error}"
        );
        assert_eq!(
            error.to_string(),
            "mcp__a__echo was not called: this request may not use server a"
        );
        assert_eq!(processes_with_tag(&tag).is_empty(), !known);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    let call = host.call("mcp__b__echo", json!({"message": "m"}));
    assert_eq!(call.context(context.clone()).await.unwrap().to_text(), "m");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // The suggestion for a mistyped name is a tool of the request.
    let call = host.call("mcp__b__ech", json!({})).context(context);
    let error = call.await.unwrap_err().to_string();
    assert!(error.ends_with("did you mean mcp__b__echo?"), "{error}");
    host.shutdown().await;
}

#[tokio::test]
async fn management_tools_see_only_the_servers_of_the_request() {
    let (host, _tag) = lazy_host(&["a", "b"]);
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host.clone());
    registry.register_management_tools().unwrap();
    let context = CallContext::default().servers(ServerSelection::only(["b"]));
    for tool in ["ListMcpResources", "RefreshMcpTools", "WaitForMcpServers"] {
        let items = execute_json(&registry, tool, json!({}), context.clone()).await;
        let items = items.as_array().unwrap();
        assert!(
            items.len() == 1 && items[0]["server"] == "b",
            "{tool}: {items:?}"
        );
    }
    for (tool, input) in [
        ("ListMcpResources", json!({"server": "a"})),
        ("ReadMcpResource", json!({"server": "a", "uri": "note://x"})),
        (
            "SubscribeMcpResource",
            json!({"server": "a", "uri": "note://x"}),
        ),
        (
            "SubscribePolling",
            json!({"type": "tool", "server": "a", "toolName": "echo"}),
        ),
        ("RefreshMcpTools", json!({"server": "a"})),
        ("WaitForMcpServers", json!({"servers": ["a"]})),
    ] {
        let output = registry.execute(tool, input, context.clone()).await;
        assert!(output.is_error, "{tool}");
        assert_eq!(
            output.to_text(),
            "this request may not use server a",
            "{tool}"
        );
    }
    let request = WatchRequest::poll_resource("a", "note://x")
        .every(Duration::from_secs(1))
        .context(context);
    assert!(host.watch(request).await.is_err());
    assert!(host.watches().is_empty());
    host.shutdown().await;
}
