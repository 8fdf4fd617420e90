//! Tests of in-process servers with messages as the CLI sends them.

use std::future::{pending, ready};
use std::io;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use switchboard::in_process::{
    ByteStreams, Connector, LocalCall, LocalServer, ServerInstance, ServerNotification,
};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, ToolDefinition};
use tokio::sync::{broadcast, mpsc};

use super::in_process::InProcessServers;

const LIMIT: Duration = Duration::from_secs(60);

struct Echo {
    name: &'static str,
    notices: broadcast::Sender<ServerNotification>,
}

impl Echo {
    fn new(name: &'static str) -> Self {
        let notices = broadcast::channel(4).0;
        Self { name, notices }
    }
}

impl LocalServer for Echo {
    fn implementation(&self) -> Implementation {
        Implementation::new(self.name, "1.0")
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let any = Json::from(&json!({"type": "object"}));
        vec![
            ToolDefinition::new("who", any.clone()),
            ToolDefinition::new("hang", any),
        ]
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        match call.tool {
            "who" => Box::pin(ready(Ok(CallToolResult::text(self.name)))),
            _ => Box::pin(pending()),
        }
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        Some(self.notices.subscribe())
    }
}

/// A server that never finishes its handshake.
struct Silent;

impl Connector for Silent {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        Box::pin(pending())
    }
}

fn two() -> (InProcessServers, mpsc::Receiver<(String, Json)>) {
    let servers = vec![
        (
            "my srv.v1.0".to_owned(),
            ServerInstance::from(Echo::new("one")),
        ),
        ("two".to_owned(), ServerInstance::from(Echo::new("two"))),
    ];
    InProcessServers::new(servers, LIMIT)
}

fn raw(message: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(message).unwrap()
}

fn call(tool: &str) -> Box<RawValue> {
    raw(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool}}))
}

async fn respond(servers: &InProcessServers, server: &str, message: &RawValue) -> Value {
    servers.message(server, message).await.to_value().unwrap()
}

fn empty_result() -> Value {
    json!({"jsonrpc": "2.0", "result": {}})
}

#[tokio::test]
async fn message_reaches_the_named_server() {
    let (servers, _notifications) = two();
    assert_eq!(servers.names(), ["my srv.v1.0", "two"]);
    for (name, expected) in [("my srv.v1.0", "one"), ("two", "two")] {
        let response = respond(&servers, name, &call("who")).await;
        assert_eq!(response["id"], 2);
        assert_eq!(response["result"]["content"][0]["text"], expected);
    }
}

#[tokio::test]
async fn every_message_gets_a_response() {
    let (servers, _notifications) = two();
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}),
        json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
    ] {
        for server in ["two", "unknown"] {
            assert_eq!(
                respond(&servers, server, &raw(&message)).await,
                empty_result()
            );
        }
    }
}

#[tokio::test]
async fn unknown_server_is_an_error_response() {
    let (servers, _notifications) = two();
    let response = respond(&servers, "x", &call("who")).await;
    assert_eq!(
        response,
        json!({
            "jsonrpc": "2.0",
            "id": 2,
            "error": {"code": -32601, "message": "SDK MCP server \"x\" not found"},
        })
    );
}

#[tokio::test]
async fn cancelled_call_ends_in_order() {
    let (servers, _notifications) = two();
    let hanging = servers.message("two", &call("hang"));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(
        respond(&servers, "two", &raw(&cancel)).await,
        empty_result()
    );
    assert_eq!(hanging.await.to_value().unwrap(), empty_result());
}

#[tokio::test(start_paused = true)]
async fn manifests_omit_slow_servers() {
    let servers = vec![
        ("echo".to_owned(), ServerInstance::from(Echo::new("echo"))),
        ("silent".to_owned(), ServerInstance::stream(Silent)),
    ];
    let (servers, _notifications) = InProcessServers::new(servers, LIMIT);
    let any = json!({"type": "object"});
    assert_eq!(
        Value::Object(servers.manifests().await),
        json!({"echo": {
            "initializeResult": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1.0"},
            },
            "toolsListResult": {"tools": [
                {"name": "who", "inputSchema": any},
                {"name": "hang", "inputSchema": any},
            ]},
        }})
    );
    // With a manifest, the CLI starts its ids at 2, as if it had sent `initialize` and `tools/list`
    // already.
    assert_eq!(respond(&servers, "echo", &call("who")).await["id"], 2);
}

#[tokio::test]
async fn notifications_carry_the_server_name() {
    let echo = Echo::new("echo");
    let notices = echo.notices.clone();
    let (_servers, mut notifications) =
        InProcessServers::new(vec![("e".to_owned(), echo.into())], LIMIT);
    let _ = notices.send(ServerNotification::ToolsChanged);
    let (name, message) = notifications.recv().await.unwrap();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!((name.as_str(), message.to_value().unwrap()), ("e", changed));
}

#[tokio::test]
async fn replacing_servers_ends_only_their_calls() {
    let unchanged = ServerInstance::from(Echo::new("stays"));
    let removed = ServerInstance::from(Echo::new("goes"));
    let configured = vec![
        ("a".to_owned(), unchanged.clone()),
        ("b".to_owned(), removed),
    ];
    let (servers, _notifications) = InProcessServers::new(configured, LIMIT);
    let mut kept = Box::pin(servers.message("a", &call("hang")));
    let dropped = servers.message("b", &call("hang"));
    let new = ServerInstance::from(Echo::new("new"));
    servers.replace(vec![("a".to_owned(), unchanged), ("c".to_owned(), new)]);
    assert_eq!(servers.names(), ["a", "c"]);
    let dropped = dropped.await.to_value().unwrap();
    assert_eq!(dropped["id"], 2);
    let message = dropped["error"]["message"].as_str().unwrap();
    assert!(message.contains("was replaced"), "{message}");
    assert!(futures_util::poll!(&mut kept).is_pending());
    let response = respond(&servers, "c", &call("who")).await;
    assert_eq!(response["result"]["content"][0]["text"], "new");
}

#[tokio::test]
async fn always_loaded_tools_are_marked() {
    let configured = ["marked", "other"].map(|name| (name.to_owned(), Echo::new(name).into()));
    let (servers, _notifications) = InProcessServers::new(configured.into(), LIMIT);
    let servers = servers.with_always_load(["marked".to_owned()]);
    let manifests = Value::Object(servers.manifests().await);
    let list = raw(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    for (name, expected) in [
        ("marked", json!({"anthropic/alwaysLoad": true})),
        ("other", json!(null)),
    ] {
        let listed = respond(&servers, name, &list).await;
        assert_eq!(listed["id"], 1);
        assert_eq!(listed["result"]["tools"][1]["_meta"], expected);
        let manifest = &manifests[name]["toolsListResult"];
        assert_eq!(manifest["tools"][1]["_meta"], expected);
    }
}

/// A server with tools whose names a model cannot use and whose texts are hostile.
struct OddTools;

impl LocalServer for OddTools {
    fn implementation(&self) -> Implementation {
        Implementation::new("odd\u{202e}", "1\u{1b}[31m")
    }

    fn instructions(&self) -> Option<String> {
        Some("be kind\u{200b}".to_owned())
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let schema = json!({"type": "object", "title": "t\u{200b}"});
        let tool = |name: &str| ToolDefinition::new(name, Json::from(&schema));
        vec![
            tool("read file").description("reads\u{1b}[31m"),
            tool("plain"),
        ]
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let name = call.tool.to_owned();
        Box::pin(async move { Ok(CallToolResult::text(name)) })
    }
}

#[tokio::test]
async fn names_are_encoded_as_in_a_host_and_texts_are_sanitized() {
    let host = switchboard::Host::builder()
        .in_process_server("odd", OddTools)
        .start()
        .unwrap();
    host.wait_for(switchboard::Readiness::All).await;
    let wire_name = host.tools()[0].wire_name.to_string();
    let encoded = wire_name.strip_prefix("mcp__odd__").unwrap();
    host.shutdown().await;

    let configured = vec![("odd".to_owned(), OddTools.into())];
    let (servers, _notifications) = InProcessServers::new(configured, LIMIT);
    let list = raw(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let listed = respond(&servers, "odd", &list).await["result"]["tools"].clone();
    let manifest = Value::Object(servers.manifests().await);
    assert_eq!(manifest["odd"]["toolsListResult"]["tools"], listed);
    let schema = json!({"type": "object", "title": "t"});
    assert_eq!(
        listed,
        json!([
            {"name": encoded, "description": "reads", "inputSchema": schema},
            {"name": "plain", "inputSchema": schema},
        ])
    );
    let handshake = manifest["odd"]["initializeResult"].to_string();
    assert!(
        !handshake.contains("\\u") && !handshake.contains(['\u{202e}', '\u{200b}']),
        "{handshake}"
    );
    for (name, raw_name) in [(encoded, "read file"), ("plain", "plain")] {
        let response = respond(&servers, "odd", &call(name)).await;
        assert_eq!(response["result"]["content"][0]["text"], raw_name);
    }
}
