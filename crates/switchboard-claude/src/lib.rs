//! Drives the Claude CLI from Rust, with Rust functions as tools inside it.

#[allow(dead_code, reason = "the client is about to use it")]
mod elicitation;
mod fields;
#[allow(dead_code, reason = "the client is about to use it")]
mod hooks;
mod message;
#[allow(dead_code, reason = "the client is about to use it")]
mod options;
#[allow(dead_code, reason = "the client is about to use it")]
mod permission;
mod servers;

pub use hooks::{HookEvent, HookInput, HookMatcher, HookOutput, Hooks};
pub use message::{
    AssistantMessage, ContentBlock, Init, InitServer, Message, PermissionDenial, ResultMessage,
    StreamEvent, SystemMessage, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock,
    UnknownMessage, Usage, UserMessage,
};
pub use options::{Options, PermissionMode, SettingSource, tools_of};
pub use permission::{PermissionResult, ToolPermissionRequest};
pub use servers::{
    McpConnectionStatus, McpServerConfig, McpServerStatus, McpSetServersResult, McpToolInfo,
};
