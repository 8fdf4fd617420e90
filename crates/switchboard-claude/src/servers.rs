//! Servers: how they are declared to the CLI, what it says of them, and those of this program that
//! it speaks to through us.

mod config;
mod eager;
mod manifest;
mod names;
mod sdk;
mod status;
#[cfg(test)]
mod tests;

pub use config::McpServerConfig;
pub(crate) use config::millis;
pub(crate) use names::check_names;
pub(crate) use sdk::SdkServers;
pub(crate) use status::statuses;
pub use status::{McpConnectionStatus, McpServerStatus, McpSetServersResult, McpToolInfo};
