//! A directly called server with one tool per behaviour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard_server::{LocalCall, LocalServer, ServerInstance, ServerNotification};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::{
    CallToolResult, ErrorObject, GetPromptResult, Implementation, Json, Progress,
    ReadResourceResult, ServerCapabilities, ToolDefinition,
};
use tokio::sync::broadcast;

/// Number of notifications that are kept for a slow subscriber.
const NOTIFICATION_BACKLOG: usize = 16;

pub struct FixtureServer {
    /// Number of tool calls that are running.
    pub running: Arc<AtomicUsize>,
    pub notifications: broadcast::Sender<ServerNotification>,
}

impl FixtureServer {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            running: Arc::default(),
            notifications: broadcast::channel(NOTIFICATION_BACKLOG).0,
        })
    }

    pub fn instance(self: &Arc<Self>) -> ServerInstance {
        ServerInstance::from(Arc::clone(self))
    }

    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

/// Counts a call while it runs.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LocalServer for FixtureServer {
    fn implementation(&self) -> Implementation {
        Implementation::new("fixture", "1.0")
    }

    fn instructions(&self) -> Option<String> {
        Some("Use with care.".to_owned())
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities::default()
            .tools_list_changed()
            .resources_subscribe()
            .prompts()
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let schema = json!({
            "type": "object",
            "properties": {"unused": {"type": "number"}, "a": {"type": "number"}},
            "required": ["a"],
        });
        let any = || Json::from(&json!({"type": "object"}));
        let mut double =
            ToolDefinition::new("double", Json::from(&schema)).description("Doubles a number");
        double.meta = Some(Json::from(&json!({"anthropic/alwaysLoad": true})));
        double.output_schema = Some(any());
        let others = [
            "wait", "hang", "panic", "count", "fail", "meta", "busy", "chatty",
        ];
        let others = others.map(|name| ToolDefinition::new(name, any()));
        std::iter::once(double).chain(others).collect()
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        Box::pin(async move {
            self.running.fetch_add(1, Ordering::SeqCst);
            let _running = Running(Arc::clone(&self.running));
            match call.tool {
                "double" => Ok(CallToolResult::text(
                    (call.arguments["a"].as_f64().unwrap() * 2.0).to_string(),
                )),
                "wait" => {
                    let millis = call.arguments["millis"].as_u64().unwrap();
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    Ok(CallToolResult::text(millis.to_string()))
                }
                "hang" => std::future::pending().await,
                "count" => {
                    for step in 1..=3 {
                        call.report(Progress::new(f64::from(step)));
                        tokio::task::yield_now().await;
                    }
                    Ok(CallToolResult::text("counted"))
                }
                "busy" => {
                    tokio::time::advance(Duration::from_secs(100)).await;
                    for _ in 0..100_000 {
                        tokio::task::consume_budget().await;
                    }
                    Ok(CallToolResult::text("was not stopped"))
                }
                "chatty" => {
                    let reporter = call.reporter();
                    let running = Arc::clone(&self.running);
                    std::thread::spawn(move || {
                        while running.load(Ordering::SeqCst) > 0 {
                            reporter.report(Progress::new(1.0));
                        }
                    });
                    tokio::time::advance(Duration::from_secs(100)).await;
                    std::future::pending().await
                }
                "fail" => Err(ErrorObject::new(-32000, "not today")),
                "meta" => Ok(CallToolResult::text(json!(call.meta).to_string())),
                other => panic!("{other}"),
            }
        })
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        Box::pin(async move {
            match uri {
                "test://empty" => Ok(ReadResourceResult::default()),
                "test://hang" => std::future::pending().await,
                _ => Err(ErrorObject::new(
                    ErrorObject::RESOURCE_NOT_FOUND,
                    format!("resource {uri} does not exist"),
                )),
            }
        })
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorObject>> {
        let result = GetPromptResult::new([]).description(format!("{name} {arguments:?}"));
        Box::pin(std::future::ready(Ok(result)))
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        Some(self.notifications.subscribe())
    }
}
