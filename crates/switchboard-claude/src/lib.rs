//! Drives the Claude CLI from Rust: sends prompts, receives messages, and offers Rust functions to
//! the model as tools.
//!
//! The crate starts the CLI as a child process and implements its control protocol: in-process MCP
//! servers, permission requests, hooks and elicitations. [`query`] sends one prompt and returns a
//! stream of messages. A [`Client`] is a session of several turns. [`Options`] configure servers,
//! tools and permissions. Methods and types are named as in the official SDKs for Python and
//! TypeScript.
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
//! The CLI inherits the environment of this program. Dropping the stream or the client, or closing
//! the client, ends the CLI and all processes that it started. If this program is killed, the
//! kernel kills the CLI too (Linux only), but processes that the CLI started may survive.

mod client;
mod control;
mod elicitation;
mod error;
mod hooks;
mod json_fields;
mod lenient_json;
mod message;
mod options;
mod permission;
mod process;
mod query;
mod servers;
mod start_cli;
mod tool_names;

pub use client::{Client, Messages};
pub use error::{Error, LossReason, OutputTail};
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

/// Compiles the Rust code of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
