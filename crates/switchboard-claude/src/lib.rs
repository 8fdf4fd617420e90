//! Drives the Claude CLI from Rust, with Rust functions as tools inside it.

mod fields;
mod message;
mod servers;

pub use message::{
    AssistantMessage, ContentBlock, Init, InitServer, Message, PermissionDenial, ResultMessage,
    StreamEvent, SystemMessage, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock,
    UnknownMessage, Usage, UserMessage,
};
pub use servers::{
    McpConnectionStatus, McpServerConfig, McpServerStatus, McpSetServersResult, McpToolInfo,
};
