//! The tool registry, which offers local tools and MCP tools in one list.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test"
)]

mod common;

use common::{Calculator, host_with};
use serde_json::{Map, Value, json};
use switchboard::in_process::InProcessTool;
use switchboard::interaction::BoxFuture;
use switchboard::mcp::Json;
use switchboard::permission::{Action, Rule};
use switchboard::registry::{Registry, Tool, ToolExecutor, ToolSource, ToolSpec};
use switchboard::{CallContext, Host, Output, Readiness, ToolResult};
use switchboard_testkit::Script;

struct Clock;

impl Tool for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn description(&self) -> &'static str {
        "Tells the time"
    }

    fn input_schema(&self) -> Json {
        Json::from(&json!({"type": "object", "properties": {"set": {"type": "number"}}}))
    }

    fn requires_permission(&self, input: &Map<String, Value>) -> bool {
        input.contains_key("set")
    }

    fn execute<'a>(
        &'a self,
        input: Map<String, Value>,
        _: &'a CallContext,
    ) -> BoxFuture<'a, ToolResult<Output>> {
        assert!(!input.contains_key("break"), "broken");
        let result = match input.get("fail") {
            Some(_) => Err("the clock has stopped".into()),
            None => Ok(Output::text("noon")),
        };
        Box::pin(std::future::ready(result))
    }
}

#[tokio::test]
async fn registry_runs_local_and_mcp_tools() {
    let host = Host::builder()
        .in_process_server("calc", Calculator)
        .rule(Rule::new(Action::Allow, "mcp__calc__add").unwrap())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host.clone());
    registry.register(Clock).unwrap();
    assert!(registry.register(Clock).is_err());
    let kinds: Vec<_> = registry
        .definitions()
        .into_iter()
        .map(|tool| (tool.name, tool.source))
        .collect();
    assert_eq!(
        kinds,
        [
            ("clock".to_owned(), ToolSource::Local),
            ("mcp__calc__add".to_owned(), ToolSource::Mcp),
            ("mcp__calc__panic".to_owned(), ToolSource::Mcp),
        ]
    );
    assert!(registry.requires_permission("mcp__calc__add", &Map::new()));

    let execute = |name: &'static str, input: Value| {
        let registry = registry.clone();
        async move {
            let output = registry.execute(name, input, CallContext::default()).await;
            (output.is_error, output.to_text())
        }
    };
    assert_eq!(execute("clock", json!({})).await, (false, "noon".into()));
    assert_eq!(
        execute("clock", json!({"fail": 1})).await,
        (true, "the clock has stopped".into())
    );
    assert_eq!(
        execute("clock", json!({"break": 1})).await,
        (true, "tool clock panicked".into())
    );
    assert_eq!(
        execute("clock", json!({"set": "noon"})).await,
        (
            true,
            "invalid arguments for clock: at /set: \"noon\" is not of type \"number\"".into()
        )
    );
    assert_eq!(
        execute("clock", json!({"set": 1})).await,
        (
            true,
            "clock was not executed: it needs permission and no user can be asked".into()
        )
    );
    assert_eq!(
        execute("mcp__calc__add", json!({"a": 1, "b": 2})).await,
        (false, "3".into())
    );
    assert_eq!(
        execute("mcp__calc__panic", json!({})).await,
        (
            true,
            "panic of server calc was not called: it needs permission and no user can be asked"
                .into()
        )
    );
    assert_eq!(
        execute("nothing", json!({})).await,
        (true, "no tool named nothing".into())
    );

    host.disconnect("calc").await.unwrap();
    assert_eq!(registry.definitions().len(), 1);
}

/// Returns the names of the tools, in order.
fn names(tools: &[ToolSpec]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[tokio::test]
async fn first_listing_is_in_order_of_registration() {
    let host = Host::builder()
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let mut registry = Registry::new(host.clone());
    registry.register(Clock).unwrap();
    registry.register_management_tools().unwrap();
    let agent = |task: Text| async move { Ok(task.text) };
    registry
        .register_function("Agent", "Runs a sub-agent", agent)
        .unwrap();
    let first = registry.definitions();
    let listed = names(&first);
    assert_eq!(listed[..3], ["clock", "mcp__calc__add", "mcp__calc__panic"]);
    assert_eq!(listed[3], "ListMcpResources");
    assert_eq!(listed.last(), Some(&"Agent"));

    host.add_in_process_server("again", Calculator)
        .await
        .unwrap();
    let clone = registry.clone();
    let second = clone.definitions();
    assert_eq!(second[..first.len()], first);
    assert_eq!(
        names(&second[first.len()..]),
        ["mcp__again__add", "mcp__again__panic"]
    );
    // A server that returns gets its old position.
    host.disable_server("calc").await.unwrap();
    assert_eq!(
        names(&registry.definitions())[..2],
        ["clock", "ListMcpResources"]
    );
    host.enable_server("calc").await.unwrap();
    assert_eq!(registry.definitions(), second);
    host.shutdown().await;
}

#[tokio::test]
async fn closure_is_a_local_tool() {
    let host = Host::builder().allow("shout").start().unwrap();
    let mut registry = Registry::new(host);
    registry
        .register_function("shout", "Shouts", |text: Text| async move {
            match text.text.as_str() {
                "" => Err("nothing to shout".into()),
                text => Ok(text.to_uppercase()),
            }
        })
        .unwrap();
    let tool = InProcessTool::new("now", "Returns the time", || async {
        Ok("noon".to_owned())
    });
    registry.register_function_tool(tool.read_only()).unwrap();
    assert!(registry.requires_permission("shout", &Map::new()));
    assert!(!registry.requires_permission("now", &Map::new()));
    let mut outcomes = Vec::new();
    for (name, input) in [
        ("shout", json!({"text": "a"})),
        ("shout", json!({"text": ""})),
        ("shout", json!({})),
        ("now", json!({})),
    ] {
        let output = registry.execute(name, input, CallContext::default()).await;
        outcomes.push((output.is_error, output.to_text()));
    }
    assert_eq!(
        outcomes,
        [
            (false, "A".to_owned()),
            (true, "nothing to shout".to_owned()),
            (
                true,
                "invalid arguments for shout: \"text\" is a required property".to_owned()
            ),
            (false, "noon".to_owned()),
        ]
    );
    for name in ["", "a b", "mcp__x", &"x".repeat(65)] {
        let text = |text: Text| async move { Ok(text.text) };
        assert!(
            registry.register_function(name, "", text).is_err(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn serialized_tools_fit_the_messages_api() {
    let script = Script::legacy()
        .raw_tool(json!({"name": "untyped", "inputSchema": {"properties": {"a": {}}}}))
        .raw_tool(json!({
            "name": "full", "title": "Full", "description": "says hi",
            "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}, "_meta": {"x": 1},
        }));
    let (host, _server) = host_with(script).await;
    let registry = Registry::new(host.clone());
    assert_eq!(
        serde_json::to_value(registry.definitions()).unwrap(),
        json!([
            {
                "name": "mcp__s__untyped", "description": "",
                "input_schema": {"properties": {"a": {}}, "type": "object"},
            },
            {
                "name": "mcp__s__full", "description": "says hi",
                "input_schema": {"type": "object"},
            },
        ])
    );
    host.shutdown().await;
}
