//! MCP servers of a session: their configuration, the in-process ones, and the status that the CLI
//! reports.

mod config;
mod in_process;
mod manifest;
mod name_check;
mod status;
#[cfg(test)]
mod tests;
mod tool_list;

pub use config::McpServerConfig;
pub(crate) use config::millis;
pub(crate) use in_process::InProcessServers;
pub(crate) use name_check::check_names;
pub(crate) use status::parse_statuses;
pub use status::{McpConnectionStatus, McpServerStatus, McpSetServersResult, McpToolInfo};
