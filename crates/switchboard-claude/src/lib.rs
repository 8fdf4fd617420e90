//! Drives the Claude CLI from Rust, with Rust functions as tools inside it.

mod servers;

pub use servers::{
    McpConnectionStatus, McpServerConfig, McpServerStatus, McpSetServersResult, McpToolInfo,
};
