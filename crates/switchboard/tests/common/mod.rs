//! Shared fixtures: hosts with scripted servers in memory or in child processes.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses only some of these items"
)]
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::io;

use serde_json::json;

use switchboard::in_process::{ByteStreams, Connector, LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{
    CallToolResult, ErrorObject, Implementation, Json, ToolAnnotations, ToolDefinition,
};
use switchboard::permission::{Action, Rule};
use switchboard::{Host, HostBuilder, Readiness};
use switchboard_config::{LaunchSpec, ServerConfig, ServerName};
use switchboard_testkit::{MemoryServer, Script, TAG_VARIABLE, scripted_server};

/// An in-process server with the tools `add` and `panic`.
pub struct Calculator;

impl LocalServer for Calculator {
    fn implementation(&self) -> Implementation {
        Implementation::new("calculator", "1.0")
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        });
        let add = ToolDefinition::new("add", Json::from(&schema)).description("Adds two numbers");
        let panics = ToolDefinition::new("panic", Json::from(&json!({"type": "object"})));
        vec![add.annotations(ToolAnnotations::read_only()), panics]
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        Box::pin(async move {
            assert_eq!(call.tool, "add", "only `add` returns a result");
            let number = |key: &str| call.arguments[key].as_f64().unwrap();
            Ok(CallToolResult::text(
                (number("a") + number("b")).to_string(),
            ))
        })
    }
}

/// A connector to a scripted server that runs in the test process.
pub struct InMemory(pub MemoryServer);

impl Connector for InMemory {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let (reader, writer) = self.0.open();
        Box::pin(std::future::ready(Ok(ByteStreams::new(reader, writer))))
    }
}

/// Returns a builder whose rules allow every call of an MCP tool.
pub fn permissive() -> HostBuilder {
    Host::builder().rule(Rule::new(Action::Allow, "mcp__*").unwrap())
}

/// Starts a host with one scripted server named `s` and waits until the server is connected or has
/// failed.
pub async fn host_with(script: Script) -> (Host, MemoryServer) {
    let server = MemoryServer::new(script);
    let host = permissive()
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    (host, server)
}

pub fn name(text: &str) -> ServerName {
    ServerName::new(text).unwrap()
}

/// Returns the config of a scripted server that runs as a child process. `tag` is in the
/// environment of the child, so that tests can find its processes.
pub fn child(script: &Script, tag: &str) -> ServerConfig {
    let program = scripted_server().to_str().unwrap().to_owned();
    ServerConfig::stdio(program, [script.to_json()]).env(TAG_VARIABLE, tag)
}

/// Returns the launch spec of a trusted server with this name and config.
pub fn launch(server: &str, config: ServerConfig) -> LaunchSpec {
    LaunchSpec::trusted(name(server), config)
}

/// Returns the wire names of all tools of the host.
pub fn tool_names(host: &Host) -> Vec<String> {
    host.tools()
        .iter()
        .map(|tool| tool.wire_name.to_string())
        .collect()
}
