//! Servers: how they are declared to the CLI, what it says of them, and those of this program that
//! it speaks to through us.

mod config;
mod status;

pub use config::McpServerConfig;
#[allow(unused_imports, reason = "the client is about to use it")]
pub(crate) use status::statuses;
pub use status::{McpConnectionStatus, McpServerStatus, McpSetServersResult, McpToolInfo};
