//! The tools by which a model looks after its servers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected shall fail"
)]

mod common;

use common::InMemory;
use serde_json::{Map, Value, json};
use switchboard::permission::{Action, Rule};
use switchboard::{CallContext, Host, Limits, Output, Readiness, Registry, ToolExecutor, ToolKind};
use switchboard_testkit::{MemoryServer, Script, Step};

/// A registry with the management tools, over these servers and under these rules.
async fn registry<const COUNT: usize>(
    servers: [(&str, &MemoryServer); COUNT],
    rules: &[(Action, &str)],
) -> Registry {
    let mut builder = Host::builder();
    for (name, server) in servers {
        builder = builder.stream_server(name, InMemory(server.clone()));
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

/// The answer, which is JSON.
async fn answer(registry: &Registry, tool: &str, input: Value) -> Value {
    let output = execute(registry, tool, input).await;
    assert!(!output.is_error, "{}", output.to_text());
    serde_json::from_str(&output.to_text()).unwrap()
}

/// Why it was not done.
async fn refusal(registry: &Registry, tool: &str, input: Value) -> String {
    let output = execute(registry, tool, input).await;
    assert!(output.is_error, "{}", output.to_text());
    output.to_text()
}

fn notes() -> MemoryServer {
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
async fn they_stand_beside_the_tools_of_servers_and_need_no_permission() {
    let server = MemoryServer::new(Script::modern().tool("echo"));
    let registry = registry([("s", &server)], &[]).await;
    let definitions = registry.definitions();
    let named: Vec<_> = definitions
        .iter()
        .map(|tool| (tool.name.as_str(), tool.kind))
        .collect();
    for name in [
        "ListMcpResources",
        "ReadMcpResource",
        "RefreshMcpTools",
        "WaitForMcpServers",
    ] {
        assert!(
            named.contains(&(name, ToolKind::Local)),
            "{name} in {named:?}"
        );
        assert!(!registry.requires_permission(name, &Map::new()));
    }
    assert!(named.contains(&("mcp__s__echo", ToolKind::Mcp)));
    // Nobody can be asked here, and nobody has to be.
    assert_eq!(
        answer(&registry, "ListMcpResources", json!({})).await,
        json!([])
    );
    let wrong = refusal(&registry, "ListMcpResources", json!({"sever": "s"})).await;
    assert!(wrong.contains("sever"), "{wrong}");
}

#[tokio::test]
async fn resources_are_listed_as_agents_know_it() {
    let (one, two) = (
        notes(),
        MemoryServer::new(Script::legacy().resource("log://a", "a")),
    );
    let registry = registry([("notes", &one), ("logs", &two)], &[]).await;
    assert_eq!(
        answer(&registry, "ListMcpResources", json!({})).await,
        json!([
            {"uri": "note://one", "name": "one", "server": "notes"},
            {
                "uri": "note://two", "name": "The second", "mimeType": "text/markdown",
                "description": "shown safely", "server": "notes",
            },
            {
                "uri": "log://a", "name": "a", "mimeType": "text/plain",
                "description": "The scripted resource log://a.", "server": "logs",
            },
        ])
    );
    let of_one = answer(&registry, "ListMcpResources", json!({"server": "logs"})).await;
    assert_eq!(of_one.as_array().unwrap().len(), 1);
    let unknown = refusal(&registry, "ListMcpResources", json!({"server": "nobody"})).await;
    assert_eq!(unknown, "there is no server \"nobody\"");
}

#[tokio::test]
async fn a_long_list_is_cut_at_a_whole_resource_and_that_is_said() {
    let script = (0..100).fold(Script::modern(), |script, number| {
        script.resource(&format!("note://{number}"), "")
    });
    let mut limits = Limits::default();
    limits.result_text_bytes = 1_000;
    let host = Host::builder()
        .limits(limits)
        .stream_server("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    let output = execute(&registry, "ListMcpResources", json!({})).await;
    let text = output.to_text();
    let (list, note) = text.split_once('\n').unwrap();
    let listed: Vec<Value> = serde_json::from_str(list).unwrap();
    assert!(list.len() <= 1_000 && listed.len() > 5, "{list}");
    let left_out = format!("[{} more resources were left out", 100 - listed.len());
    assert!(note.starts_with(&left_out), "{note}");
}

#[tokio::test]
async fn a_deny_on_a_tool_or_on_a_whole_server_holds() {
    let (one, two) = (notes(), notes());
    let servers = [("open", &one), ("closed", &two)];
    let rules = [
        (Action::Deny, "mcp__closed"),
        (Action::Deny, "mcp__open__some_tool"),
        (Action::Deny, "RefreshMcpTools"),
    ];
    let registry = registry(servers, &rules).await;
    let listed = answer(&registry, "ListMcpResources", json!({})).await;
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
        let why = refusal(&registry, tool, input).await;
        assert!(why.contains("rule `mcp__closed`"), "{tool}: {why}");
    }
    assert!(two.received_with("resources/read").is_empty());
    assert!(two.received_with("resources/list").is_empty());
    let why = refusal(&registry, "RefreshMcpTools", json!({})).await;
    assert!(why.contains("rule `RefreshMcpTools`"), "{why}");
}

#[tokio::test]
async fn tools_are_listed_anew_on_demand() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let grown = Step::Reply(json!({"tools": [tool("echo"), tool("new")]}));
    let script = Script::legacy().tool("echo").tool("old").on(
        "tools/list",
        [Step::until(1, [Step::Default]), Step::after(1, [grown])],
    );
    let server = MemoryServer::new(script);
    let registry = registry([("s", &server)], &[]).await;
    assert_eq!(
        answer(&registry, "RefreshMcpTools", json!({"server": "s"})).await,
        json!([{
            "server": "s", "status": "refreshed", "toolCount": 2,
            "added": ["mcp__s__new"], "removed": ["mcp__s__old"],
        }])
    );
    assert_eq!(server.received_with("tools/list").len(), 2);
}

#[tokio::test]
async fn servers_that_start_are_waited_for() {
    let server = MemoryServer::new(Script::modern().tool("echo"));
    let host = Host::builder()
        .stream_server("s", InMemory(server.clone()))
        .start()
        .unwrap();
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    assert_eq!(
        answer(&registry, "WaitForMcpServers", json!({"servers": ["s"]})).await,
        json!([{"server": "s", "status": "connected"}])
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_servers_ends() {
    let server = MemoryServer::new(Script::modern().on("server/discover", []));
    let host = Host::builder()
        .stream_server("s", InMemory(server.clone()))
        .start()
        .unwrap();
    let mut registry = Registry::new(host);
    registry.register_management_tools().unwrap();
    assert_eq!(
        answer(&registry, "WaitForMcpServers", json!({"timeoutMs": 1500})).await,
        json!([{"server": "s", "status": "pending"}])
    );
}
