//! Drives the Claude CLI from Rust, with Rust functions as tools inside it.
//!
//! [`query`] asks one thing and is a stream of what the CLI says; a [`Client`] is a session of several
//! turns. [`Options`] say which servers, tools and permissions there are. Names follow the official
//! SDKs.
//!
//! ```no_run
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use switchboard::{InProcessServer, ToolResult};
//! use switchboard_claude::{Options, query};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Pair {
//!     a: f64,
//!     b: f64,
//! }
//!
//! async fn add(pair: Pair) -> ToolResult<String> {
//!     Ok((pair.a + pair.b).to_string())
//! }
//!
//! # async fn example() -> Result<(), switchboard_claude::Error> {
//! let calculator = InProcessServer::new("calculator", "1.0").tool("add", "Adds two numbers", add);
//! let options = Options::new()
//!     .sdk_server("calculator", calculator)
//!     .allowed_tools(["mcp__calculator"]);
//! let mut messages = query("What is 15 + 27?", options);
//! while let Some(message) = messages.next().await {
//!     if let Some(text) = message?.text() {
//!         println!("{text}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The CLI is a child of this program. When the stream or the client is dropped or closed, it ends with
//! all that it started. When this program is killed, the CLI ends too, where the system does that
//! (Linux); what the CLI has started is then left to the CLI, and may live on. It inherits the
//! environment.

mod client;
mod connect;
mod control;
mod elicitation;
mod error;
mod fields;
mod hooks;
mod lenient;
mod message;
mod options;
mod permission;
mod program;
mod query;
mod servers;
mod tool_names;

pub use client::{Client, Messages};
pub use error::{Error, LastWords, Loss};
pub use hooks::{HookEvent, HookInput, HookMatcher, HookOutput, Hooks};
pub use message::{
    AssistantMessage, ContentBlock, Init, InitServer, Message, PermissionDenial, ResultMessage,
    StreamEvent, SystemMessage, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock,
    UnknownMessage, Usage, UserMessage,
};
pub use options::{Options, PermissionMode, SettingSource};
pub use permission::{PermissionResult, ToolPermissionRequest};
pub use query::{Prompt, Query, query};
pub use servers::{
    McpConnectionStatus, McpServerConfig, McpServerStatus, McpSetServersResult, McpToolInfo,
};
pub use tool_names::server_tools_pattern;
