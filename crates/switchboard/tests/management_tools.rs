//! The management tools, with which a model lists, reads and watches what the servers offer.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test"
)]

mod common;

use common::InMemory;
use serde_json::{Map, Value, json};
use switchboard::limits::Limits;
use switchboard::permission::{Action, Rule};
use switchboard::registry::{Registry, ToolExecutor, ToolSource};
use switchboard::{CallContext, Host, Output, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

/// Starts a host with these servers and permission rules, and registers the management tools.
async fn registry<const COUNT: usize>(
    servers: [(&str, &MemoryServer); COUNT],
    rules: &[(Action, &str)],
) -> Registry {
    let mut builder = Host::builder();
    for (name, server) in servers {
        builder = builder.connector(name, InMemory(server.clone()));
    }
    for (action, pattern) in rules {
        builder = builder.rule(Rule::new(*action, pattern).unwrap());
    }
    let host = builder.start().unwrap();
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    registry
}

async fn execute(registry: &Registry, tool: &str, input: Value) -> Output {
    registry.execute(tool, input, CallContext::default()).await
}

/// Executes a tool that must succeed and parses its output as JSON.
async fn execute_json(registry: &Registry, tool: &str, input: Value) -> Value {
    let output = execute(registry, tool, input).await;
    assert!(!output.is_error, "{}", output.to_text());
    serde_json::from_str(&output.to_text()).unwrap()
}

/// Executes a tool that must fail and returns its error text.
async fn execute_error(registry: &Registry, tool: &str, input: Value) -> String {
    let output = execute(registry, tool, input).await;
    assert!(output.is_error, "{}", output.to_text());
    output.to_text()
}

fn note_server() -> MemoryServer {
    let script = Script::modern()
        .raw_resource(json!({"uri": "note://one", "name": "one", "text": "first"}))
        .raw_resource(json!({
            "uri": "note://two", "name": "two", "title": "The second", "text": "second",
            "description": "shown\u{1b}[2J safely", "mimeType": "text/markdown",
        }))
        .raw_resource(json!({"uri": "note://un\u{202e}seen", "name": "unseen", "text": ""}));
    MemoryServer::new(script)
}

#[tokio::test]
async fn management_tools_need_no_permission() {
    let server = MemoryServer::new(Script::modern().tool("echo"));
    let registry = registry([("s", &server)], &[]).await;
    let definitions = registry.definitions();
    let named: Vec<_> = definitions
        .iter()
        .map(|tool| (tool.name.as_str(), tool.source))
        .collect();
    for name in [
        "ListMcpResources",
        "ReadMcpResource",
        "SubscribeMcpResource",
        "UnsubscribeMcpResource",
        "SubscribePolling",
        "UnsubscribePolling",
        "RefreshMcpTools",
        "WaitForMcpServers",
    ] {
        assert!(
            named.contains(&(name, ToolSource::Local)),
            "{name} in {named:?}"
        );
        assert!(!registry.requires_permission(name, &Map::new()));
    }
    assert!(named.contains(&("mcp__s__echo", ToolSource::Mcp)));
    // The host has no `Interaction`, so a call that needed permission would fail.
    assert_eq!(
        execute_json(&registry, "ListMcpResources", json!({})).await,
        json!([])
    );
    let error = execute_error(&registry, "ListMcpResources", json!({"sever": "s"})).await;
    assert!(error.contains("sever"), "{error}");
}

#[tokio::test]
async fn list_tool_returns_resources_of_all_servers() {
    let (one, two) = (
        note_server(),
        MemoryServer::new(Script::legacy().resource("log://a", "a")),
    );
    let registry = registry([("note_server", &one), ("logs", &two)], &[]).await;
    assert_eq!(
        execute_json(&registry, "ListMcpResources", json!({})).await,
        json!([
            {"uri": "note://one", "name": "one", "server": "note_server"},
            {
                "uri": "note://two", "name": "two", "mimeType": "text/markdown",
                "description": "shown safely", "server": "note_server",
            },
            {
                "uri": "log://a", "name": "a", "mimeType": "text/plain",
                "description": "The scripted resource log://a.", "server": "logs",
            },
        ])
    );
    let of_one = execute_json(&registry, "ListMcpResources", json!({"server": "logs"})).await;
    assert_eq!(of_one.as_array().unwrap().len(), 1);
    let error = execute_error(&registry, "ListMcpResources", json!({"server": "missing"})).await;
    assert_eq!(error, "no server named \"missing\"");
}

#[tokio::test]
async fn long_resource_list_is_truncated_and_stays_json() {
    let script = (0..100).fold(Script::modern(), |script, number| {
        script.resource(&format!("note://{number}"), "")
    });
    let mut limits = Limits::default();
    limits.result_text_bytes = 1_000;
    let host = Host::builder()
        .limits(limits)
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    let output = execute(&registry, "ListMcpResources", json!({})).await;
    let list = output.to_text();
    let listed: Vec<Value> = serde_json::from_str(&list).unwrap();
    assert!(list.len() <= 1_000 && listed.len() > 5, "{list}");
    let left_out = format!("{} more resources were left out", 100 - listed.len());
    assert!(output.notes[0].starts_with(&left_out), "{output:?}");
}

#[tokio::test]
async fn deny_rules_apply_to_management_tools() {
    let (one, two) = (note_server(), note_server());
    let servers = [("open", &one), ("closed", &two)];
    let rules = [
        (Action::Deny, "mcp__closed"),
        (Action::Deny, "mcp__open__some_tool"),
        (Action::Deny, "RefreshMcpTools"),
    ];
    let registry = registry(servers, &rules).await;
    let listed = execute_json(&registry, "ListMcpResources", json!({})).await;
    let listed = listed.as_array().unwrap();
    assert!(!listed.is_empty() && listed.iter().all(|item| item["server"] == "open"));
    for (tool, input) in [
        ("ListMcpResources", json!({"server": "closed"})),
        (
            "ReadMcpResource",
            json!({"server": "closed", "uri": "note://one"}),
        ),
        ("WaitForMcpServers", json!({"servers": ["closed"]})),
    ] {
        let error = execute_error(&registry, tool, input).await;
        assert!(error.contains("rule `mcp__closed`"), "{tool}: {error}");
    }
    assert!(two.received_with("resources/read").is_empty());
    assert!(two.received_with("resources/list").is_empty());
    let error = execute_error(&registry, "RefreshMcpTools", json!({})).await;
    assert!(error.contains("rule `RefreshMcpTools`"), "{error}");
}

#[tokio::test]
async fn refresh_tool_reports_added_and_removed() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let grown = Step::Reply(json!({"tools": [tool("echo"), tool("new")]}));
    let script = Script::legacy().tool("echo").tool("old").on(
        "tools/list",
        [Step::until(1, [Step::Default]), Step::after(1, [grown])],
    );
    let server = MemoryServer::new(script);
    let registry = registry([("s", &server)], &[]).await;
    assert_eq!(
        execute_json(&registry, "RefreshMcpTools", json!({"server": "s"})).await,
        json!([{
            "server": "s", "status": "refreshed", "toolCount": 2,
            "added": ["mcp__s__new"], "removed": ["mcp__s__old"],
        }])
    );
    assert_eq!(server.received_with("tools/list").len(), 2);
}

#[tokio::test]
async fn wait_tool_waits_for_starting_server() {
    let server = MemoryServer::new(Script::modern().tool("echo"));
    let host = Host::builder()
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    assert_eq!(
        execute_json(&registry, "WaitForMcpServers", json!({"servers": ["s"]})).await,
        json!([{"server": "s", "status": "connected"}])
    );
}

#[tokio::test(start_paused = true)]
async fn wait_tool_times_out() {
    let server = MemoryServer::new(Script::modern().on("server/discover", []));
    let host = Host::builder()
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    assert_eq!(
        execute_json(&registry, "WaitForMcpServers", json!({"timeoutMs": 1500})).await,
        json!([{"server": "s", "status": "pending"}])
    );
}

#[tokio::test]
async fn read_tool_returns_text_and_stores_blobs() {
    let script = Script::modern()
        .raw_resource(json!({
            "uri": "note://one", "name": "one", "mimeType": "text/plain",
            "text": "clean\u{1b}[2J text\u{200b}",
        }))
        .blob("note://picture", "image/png", "iVBORw0KGgo=");
    let folder = switchboard_testkit::Sandbox::new();
    let kept = folder.root().join("kept");
    let host = Host::builder()
        .connector("s", InMemory(MemoryServer::new(script)))
        .result_store(switchboard::content::DirectoryResultStore::new(
            kept.clone(),
        ))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    let read = |uri: &'static str| json!({"server": "s", "uri": uri});
    assert_eq!(
        execute_json(&registry, "ReadMcpResource", read("note://one")).await,
        json!({"contents": [{
            "uri": "note://one", "mimeType": "text/plain", "text": "clean text",
        }]})
    );
    let picture = execute_json(&registry, "ReadMcpResource", read("note://picture")).await;
    let part = &picture["contents"][0];
    assert_eq!(
        (&part["uri"], &part["mimeType"]),
        (&json!("note://picture"), &json!("image/png"))
    );
    let saved = std::path::Path::new(part["blobSavedTo"].as_str().unwrap());
    assert!(
        saved.starts_with(&kept) && saved.extension().unwrap() == "png",
        "{saved:?}"
    );
    assert_eq!(std::fs::read(saved).unwrap(), b"\x89PNG\r\n\x1a\n");
    let error = execute_error(&registry, "ReadMcpResource", read("note://none")).await;
    assert!(error.contains("server s returned an error"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn subscribe_tools_start_and_end_watches() {
    let script = Script::modern()
        .tool("echo")
        .resource("note://one", "first");
    let server = MemoryServer::new(script);
    let registry = registry([("s", &server)], &[(Action::Allow, "mcp__s__echo")]).await;
    let host = registry.host().clone();
    let subscribed = execute_json(
        &registry,
        "SubscribeMcpResource",
        json!({"server": "s", "uri": "note://one", "reason": "a person edits it"}),
    )
    .await;
    assert_eq!(subscribed["subscribed"], true);
    let id = subscribed["subscriptionId"].as_str().unwrap();
    assert_eq!(host.watches()[0].id.as_str(), id);

    server.catalog().set_resource("note://one", "second").await;
    let event = host.next_watch_event().await.unwrap();
    assert_eq!(event.reason.as_deref(), Some("a person edits it"));
    let text = event.to_text();
    assert!(
        text.contains("+second") && text.contains("a person edits it"),
        "{text}"
    );

    let polled = execute_json(
        &registry,
        "SubscribePolling",
        json!({
            "type": "tool", "server": "s", "toolName": "echo",
            "arguments": {"message": "hi"}, "intervalMs": 1000,
        }),
    )
    .await;
    assert_eq!(polled["subscribed"], true);
    assert_eq!(host.watches().len(), 2);

    // `UnsubscribePolling` ends only polls. The id belongs to a subscription.
    let end = json!({"subscriptionId": id});
    let none = json!({"unsubscribed": false});
    let some = json!({"unsubscribed": true});
    assert_eq!(
        execute_json(&registry, "UnsubscribePolling", end.clone()).await,
        none
    );
    assert_eq!(
        execute_json(&registry, "UnsubscribeMcpResource", end.clone()).await,
        some
    );
    assert_eq!(
        execute_json(&registry, "UnsubscribeMcpResource", end).await,
        none
    );
    let end = json!({"server": "s", "target": "echo"});
    assert_eq!(
        execute_json(&registry, "UnsubscribePolling", end).await,
        some
    );
    assert!(host.watches().is_empty());
    let error = execute_error(&registry, "UnsubscribePolling", json!({})).await;
    assert!(error.contains("subscriptionId"), "{error}");
}

#[tokio::test]
async fn invalid_subscriptions_are_refused() {
    let script = Script::modern()
        .tool("echo")
        .resource("note://one", "first");
    let server = MemoryServer::new(script);
    let other = MemoryServer::new(Script::modern().resource("note://one", "first"));
    let servers = [("s", &server), ("closed", &other)];
    let registry = registry(servers, &[(Action::Deny, "mcp__closed")]).await;
    for (tool, input, message) in [
        (
            "SubscribePolling",
            json!({"type": "tool", "server": "s", "toolName": "ecko"}),
            "did you mean echo?",
        ),
        (
            "SubscribePolling",
            json!({"type": "tool", "server": "s"}),
            "`toolName` is missing",
        ),
        (
            "SubscribePolling",
            json!({"type": "tool", "server": "s", "toolName": "echo", "arguments": {}}),
            "invalid arguments for",
        ),
        (
            "SubscribePolling",
            json!({"type": "resource", "server": "s", "uri": "note://one", "intervalMs": 10}),
            "1000",
        ),
        (
            "SubscribeMcpResource",
            json!({"server": "closed", "uri": "note://one"}),
            "rule `mcp__closed`",
        ),
        (
            "SubscribeMcpResource",
            json!({"server": "missing", "uri": "note://one"}),
            "no server named",
        ),
    ] {
        let error = execute_error(&registry, tool, input).await;
        assert!(error.contains(message), "{tool}: {error}");
    }
    assert!(registry.host().watches().is_empty());
}

#[tokio::test]
async fn invalid_resource_size_is_ignored() {
    let sized = |size: Value| json!({"uri": "note://one", "name": "one", "size": size, "text": ""});
    for (size, known) in [(json!(7), Some(7)), (json!(-5), None), (json!("big"), None)] {
        let server = MemoryServer::new(Script::modern().raw_resource(sized(size)));
        let registry = registry([("s", &server)], &[]).await;
        let offer = registry.host().resources(Some("s")).await.unwrap();
        assert_eq!(offer.items[0].item.size, known);
    }
}
