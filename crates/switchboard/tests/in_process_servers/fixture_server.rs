//! An in-process server with tools, one resource, one resource template and one prompt. The server
//! counts its calls and sends notifications when its text or its tools change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use switchboard::in_process::{LocalCall, LocalServer, ServerNotification};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{
    CallToolResult, ContentBlock, ErrorObject, GetPromptResult, Implementation, Json, Progress,
    Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource, ResourceBody,
    ResourceTemplate, Role, ServerCapabilities, ToolAnnotations, ToolDefinition,
};
use tokio::sync::broadcast;

pub(crate) const URI: &str = "board://text";

/// Maximum number of notifications that are kept for a slow subscriber.
const NOTIFICATION_CAPACITY: usize = 8;

pub(crate) struct NoteServer {
    text: Mutex<String>,
    tools: Mutex<Vec<String>>,
    notifications: broadcast::Sender<ServerNotification>,
    /// Number of calls that run now, and the maximum so far.
    running: AtomicUsize,
    pub(crate) max_running: AtomicUsize,
    pub(crate) calls: AtomicUsize,
    pub(crate) reads: AtomicUsize,
}

impl NoteServer {
    pub(crate) fn new() -> Arc<Self> {
        let tools = [
            "look", "wipe", "wait", "long", "many", "panic", "progress", "busy",
        ];
        Arc::new(Self {
            text: Mutex::new("one".to_owned()),
            tools: Mutex::new(tools.map(str::to_owned).into()),
            notifications: broadcast::Sender::new(NOTIFICATION_CAPACITY),
            running: AtomicUsize::new(0),
            max_running: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
        })
    }

    pub(crate) fn notify(&self, notification: ServerNotification) {
        let _ = self.notifications.send(notification);
    }

    pub(crate) fn listeners(&self) -> usize {
        self.notifications.receiver_count()
    }

    pub(crate) fn write(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
        self.notify(ServerNotification::ResourceUpdated(URI.into()));
    }

    pub(crate) fn set_tools(&self, tools: &[&str]) {
        *self.tools.lock().unwrap() = tools.iter().map(|&tool| tool.to_owned()).collect();
        self.notify(ServerNotification::ToolsChanged);
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

/// Counts a call in `running` for as long as this guard exists.
struct RunningCall<'a>(&'a NoteServer);

impl<'a> RunningCall<'a> {
    fn new(server: &'a NoteServer) -> Self {
        server.calls.fetch_add(1, Ordering::Relaxed);
        let now = server.running.fetch_add(1, Ordering::Relaxed) + 1;
        server.max_running.fetch_max(now, Ordering::Relaxed);
        Self(server)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl NoteServer {
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

impl LocalServer for NoteServer {
    fn implementation(&self) -> Implementation {
        Implementation::new("board", "1.0")
    }

    fn instructions(&self) -> Option<String> {
        Some("Look before you wipe.".to_owned())
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities::default()
            .tools_list_changed()
            .resources_list_changed()
            .resources_subscribe()
            .prompts_list_changed()
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let names = self.tools.lock().unwrap().clone();
        assert!(!names.is_empty(), "no tools");
        let schema = Json::from(&json!({"type": "object"}));
        let tools = names.into_iter().map(|name| {
            let is_read_only = name == "look";
            let tool = ToolDefinition::new(name, schema.clone());
            if is_read_only {
                tool.annotations(ToolAnnotations::read_only())
            } else {
                tool
            }
        });
        tools.collect()
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        Box::pin(async move {
            let _running = RunningCall::new(self);
            match call.tool {
                "look" => Ok(CallToolResult::text(self.text())),
                "wipe" => {
                    self.write("");
                    Ok(CallToolResult::text("done"))
                }
                "long" => Ok(CallToolResult::text("x".repeat(1_000_000))),
                "many" => Ok(CallToolResult::new(vec![ContentBlock::text("x"); 100])),
                "progress" => {
                    call.report(Progress::new(1.0));
                    Ok(CallToolResult::error("half done"))
                }
                "panic" => panic!("on request"),
                "busy" => {
                    tokio::time::advance(Duration::from_secs(10)).await;
                    for _ in 0..100_000 {
                        tokio::task::consume_budget().await;
                    }
                    Ok(CallToolResult::text("the call was not stopped"))
                }
                _ => std::future::pending().await,
            }
        })
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::new(URI, "text")]
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        vec![ResourceTemplate::new("board://line/{number}", "line")]
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let text = match uri {
                URI => self.text(),
                "board://wait" => std::future::pending().await,
                "board://panic" => panic!("on request"),
                _ => {
                    return Err(ErrorObject::new(
                        ErrorObject::RESOURCE_NOT_FOUND,
                        "unknown resource",
                    ));
                }
            };
            let result = ReadResourceResult::new([ResourceBody::text(uri, text)]);
            Ok(result)
        })
    }

    fn prompts(&self) -> Vec<Prompt> {
        vec![Prompt::new("greet").argument(PromptArgument::new("who"))]
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorObject>> {
        Box::pin(async move {
            assert_eq!(name, "greet", "unknown");
            let who = arguments.get("who").map_or("everyone", String::as_str);
            let mut result = GetPromptResult::default();
            let text = ContentBlock::text(format!("Greet {who}."));
            result.messages = vec![PromptMessage::new(Role::User, text)];
            Ok(result)
        })
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        Some(self.notifications.subscribe())
    }
}
