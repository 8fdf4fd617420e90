//! The tool registry, which offers local tools and MCP tools in one list.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use common::Calculator;
use serde_json::{Map, Value, json};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::Json;
use switchboard::permission::{Action, Rule};
use switchboard::registry::{Registry, Tool, ToolExecutor, ToolSource};
use switchboard::{CallContext, Host, Output, Readiness, ToolResult};

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
