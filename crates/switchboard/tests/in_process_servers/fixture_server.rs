//! A server in this process that can do everything a server can: it counts, says what stands on a
//! board, and tells when that changes.

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
    ResourceTemplate, Role, ServerCapabilities, Tool, ToolAnnotations,
};
use tokio::sync::broadcast;

pub(crate) const URI: &str = "board://text";

/// How many notices wait for who is slow.
const BACKLOG: usize = 8;

pub(crate) struct Board {
    text: Mutex<String>,
    tools: Mutex<Vec<String>>,
    notices: broadcast::Sender<ServerNotification>,
    /// How many calls run at this moment, and how many did at most.
    running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
    pub(crate) calls: AtomicUsize,
    pub(crate) reads: AtomicUsize,
}

impl Board {
    pub(crate) fn new() -> Arc<Self> {
        let tools = [
            "look", "wipe", "wait", "long", "many", "panic", "progress", "greedy",
        ];
        Arc::new(Self {
            text: Mutex::new("one".to_owned()),
            tools: Mutex::new(tools.map(str::to_owned).into()),
            notices: broadcast::Sender::new(BACKLOG),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
        })
    }

    pub(crate) fn tell(&self, notice: ServerNotification) {
        let _ = self.notices.send(notice);
    }

    pub(crate) fn listeners(&self) -> usize {
        self.notices.receiver_count()
    }

    pub(crate) fn write(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
        self.tell(ServerNotification::ResourceUpdated(URI.into()));
    }

    pub(crate) fn set_tools(&self, tools: &[&str]) {
        *self.tools.lock().unwrap() = tools.iter().map(|&tool| tool.to_owned()).collect();
        self.tell(ServerNotification::ToolsChanged);
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

/// Counts a call for as long as it runs.
struct Running<'a>(&'a Board);

impl<'a> Running<'a> {
    fn new(board: &'a Board) -> Self {
        board.calls.fetch_add(1, Ordering::Relaxed);
        let now = board.running.fetch_add(1, Ordering::Relaxed) + 1;
        board.most_running.fetch_max(now, Ordering::Relaxed);
        Self(board)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Board {
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

impl LocalServer for Board {
    fn implementation(&self) -> Implementation {
        Implementation::new("board", "1.0")
    }

    fn instructions(&self) -> Option<String> {
        Some("Look before you wipe.".to_owned())
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            tools: true,
            tools_list_changed: true,
            resources: true,
            resources_list_changed: true,
            resources_subscribe: true,
            prompts: true,
            prompts_list_changed: true,
            ..ServerCapabilities::default()
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let names = self.tools.lock().unwrap().clone();
        assert!(!names.is_empty(), "no tools");
        let schema = Json::from(&json!({"type": "object"}));
        let tools = names.into_iter().map(|name| {
            let is_read_only = name == "look";
            let tool = Tool::new(name, schema.clone());
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
            let _running = Running::new(self);
            match call.tool {
                "look" => Ok(CallToolResult::text(self.text())),
                "wipe" => {
                    self.write("");
                    Ok(CallToolResult::text("done"))
                }
                "long" => Ok(CallToolResult::text("x".repeat(1_000_000))),
                "many" => Ok(CallToolResult {
                    content: vec![ContentBlock::text("x"); 100],
                    ..CallToolResult::default()
                }),
                "progress" => {
                    call.report(Progress::new(1.0));
                    Ok(CallToolResult::error("half done"))
                }
                "panic" => panic!("told to"),
                "greedy" => {
                    tokio::time::advance(Duration::from_secs(10)).await;
                    for _ in 0..100_000 {
                        tokio::task::consume_budget().await;
                    }
                    Ok(CallToolResult::text("nobody stopped it"))
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
                "board://panic" => panic!("told to"),
                _ => {
                    return Err(ErrorObject::new(
                        ErrorObject::RESOURCE_NOT_FOUND,
                        "there is nothing there",
                    ));
                }
            };
            let result = ReadResourceResult {
                contents: vec![ResourceBody::text(uri, text)],
                ..ReadResourceResult::default()
            };
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
            let who = arguments.get("who").map_or("nobody", String::as_str);
            let mut result = GetPromptResult::default();
            let text = ContentBlock::text(format!("Greet {who}."));
            result.messages = vec![PromptMessage::new(Role::User, text)];
            Ok(result)
        })
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        Some(self.notices.subscribe())
    }
}
