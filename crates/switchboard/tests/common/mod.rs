//! What the engine's tests share: hosts over scripted servers.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up shall fail"
)]

use std::io;

use serde_json::json;

use switchboard::in_process::{ByteStreams, Connector, LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{
    CallToolResult, ErrorObject, Implementation, Json, Tool as Description, ToolAnnotations,
};
use switchboard::permission::{Action, Rule};
use switchboard::{Host, HostBuilder, Readiness};
use switchboard_config::{LaunchSpec, ServerConfig, ServerName};
use switchboard_testkit::{MemoryServer, Script, TAG_VARIABLE, scripted_server};

/// A server in this process: it adds, or it panics.
pub struct Calculator;

impl LocalServer for Calculator {
    fn implementation(&self) -> Implementation {
        Implementation::new("calculator", "1.0")
    }

    fn tools(&self) -> Vec<Description> {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        });
        let add = Description::new("add", Json::from(&schema)).description("Adds two numbers");
        let panics = Description::new("panic", Json::from(&json!({"type": "object"})));
        vec![add.annotations(ToolAnnotations::read_only()), panics]
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        Box::pin(async move {
            assert_eq!(call.tool, "add", "cannot be called");
            let number = |key: &str| call.arguments[key].as_f64().unwrap();
            Ok(CallToolResult::text(
                (number("a") + number("b")).to_string(),
            ))
        })
    }
}

/// Connects to a scripted server in memory.
pub struct InMemory(pub MemoryServer);

impl Connector for InMemory {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let (reader, writer) = self.0.open();
        Box::pin(std::future::ready(Ok(ByteStreams::new(reader, writer))))
    }
}

/// A builder that allows every call.
pub fn permissive() -> HostBuilder {
    Host::builder().rule(Rule::new(Action::Allow, "mcp__*").unwrap())
}

/// A host with one scripted server named `s`, ready to be called.
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

/// The config of a scripted server as a real child, marked with a tag to find it by.
pub fn child(script: &Script, tag: &str) -> ServerConfig {
    let program = scripted_server().to_str().unwrap().to_owned();
    ServerConfig::stdio(program, [script.to_json()]).env(TAG_VARIABLE, tag)
}

pub fn launch(server: &str, config: ServerConfig) -> LaunchSpec {
    LaunchSpec::trusted(name(server), config)
}

/// The names of all tools.
pub fn tool_names(host: &Host) -> Vec<String> {
    host.tools()
        .iter()
        .map(|tool| tool.wire_name.to_string())
        .collect()
}
