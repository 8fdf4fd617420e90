//! The runtime between AI agents and MCP servers.

pub mod id;
mod limits;
pub mod mcp;

pub use limits::{Deadlines, Limits};
