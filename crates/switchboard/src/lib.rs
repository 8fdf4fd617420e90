//! The runtime between AI agents and MCP servers.
//!
//! A [`Host`] starts servers, publishes their tools under names that a model can call, asks for
//! permission where it should, delivers each call at most once, brings dead servers back, and hands
//! out results that are safe to show a model.
//!
//! ```no_run
//! use switchboard::{Host, Readiness, permission::{Action, Rule}};
//! use switchboard_config::{LaunchSpec, ServerConfig, ServerName};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let time = ServerConfig::stdio("uvx", ["mcp-server-time"]);
//! let host = Host::builder()
//!     .environment(std::env::vars())
//!     .server(LaunchSpec::from_code(ServerName::new("time")?, time))
//!     .rule(Rule::new(Action::Allow, "mcp__time__get_*")?)
//!     .start()?;
//! host.wait_for(Readiness::All).await;
//!
//! for tool in host.tools() {
//!     println!("{}", tool.wire_name);
//! }
//! let arguments = serde_json::json!({"timezone": "Europe/Berlin"});
//! let output = host.call("mcp__time__get_current_time", arguments).await?;
//! println!("{}", output.to_text());
//! host.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! What else there is:
//!
//! | for | use |
//! |---|---|
//! | functions of the program as a server | [`InProcessServer`], [`HostBuilder::local_server`] |
//! | tools of the program beside those of servers | [`Registry`], [`ToolExecutor`] |
//! | resources, prompts, completions | [`Host::resources`], [`Host::read`], [`Host::prompts`], [`Host::fill_in`], [`Host::complete`] |
//! | changes | [`Host::watch`], [`Host::drain_watch_events`], [`Host::next_watch_event`] |
//! | a model that looks after its servers | [`Registry::register_management_tools`] |
//! | questions: permissions, forms, completions, folders | [`Interaction`], [`HostBuilder::interaction`] |
//! | credentials of remote servers | [`auth`], [`HostBuilder::auth`] |
//! | what happens | [`Host::events`], [`Host::status`], `tracing` |
//!
//! The library never prints, and reads neither the environment nor the home folder: what it may
//! know is passed in by the program that embeds it.

pub mod auth;
mod budget {
    //! Moved to `switchboard_wire::memory_budget`.
    pub(crate) use switchboard_wire::memory_budget::{Budget, FREE, Held};
}
mod call;
mod catalog;
mod client_handler;
pub mod content;
mod delivery;
mod event;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
pub mod id;
pub mod inprocess;
mod interact;
mod limits;
pub use switchboard_wire::mcp;
pub mod naming {
    //! How tools are spelled for a model: `mcp__server__tool`, and back.

    pub use crate::catalog::naming::{server_part, split_wire_name, tool_part, wire_name};
}
mod network;
pub mod permission;
pub mod process;
mod rate_limit;
pub mod reference;
mod registry;
mod server;
mod session;
pub mod status;
mod sync {
    //! Moved to `switchboard_wire::sync`.
    pub(crate) use switchboard_wire::sync::{CachePadded as Apart, lock};
}
mod telemetry;
mod template;
mod tools;
mod transport;
mod watch;
mod writer;
mod wire {
    //! Moved to `switchboard_wire`.
    pub(crate) use switchboard_wire::jsonrpc::{
        Answer, AnswerId, Message, Outcome, Problem, Received, RequestId, read,
    };
    pub(crate) use switchboard_wire::{
        decode, encode, header_params as mirror, lines as line, scan, sse,
    };
}

pub use call::{Arguments, Call, CallContext, CallError, CallOrigin, Denial, Violation};
pub use catalog::{Catalog, CatalogTool, RefusedTool};
pub use content::{Block, Output};
pub use delivery::Delivery;
pub use event::{Event, Events};
pub use host::{
    Applied, AskError, Attachment, Completing, Host, HostBuilder, Offer, Offered, Readiness,
    ServerError, SetServersResult, StartError, memory_key,
};
pub use inprocess::{InProcessServer, ToolContext, ToolError, ToolResult};
pub use interact::{
    Address, AddressWarning, BoxFuture, Choice, ContextWish, ElicitAnswer, ElicitMode, Elicitation,
    Field, FieldKind, Form, Interaction, Misfit, Nobody, Offers, PermissionAnswer,
    PermissionQuestion, Root, Sampling, TextFormat,
};
pub use limits::{Deadlines, Limits};
pub use network::{Network, ProxyError};
pub use registry::{
    RegisterError, Registry, Tool, ToolAnswer, ToolDefinition, ToolExecutor, ToolFailure, ToolKind,
};
pub use server::memory::{ServerMemory, ShortMemory};
pub use switchboard_wire::Problem;
pub use telemetry::{Direction, WireTap};
pub use template::{TemplateError, UriTemplate};
pub use transport::memory::{Instance, LocalCall, LocalNotice, LocalServer, Reporter};
pub use transport::{ByteStreams, Dial};
pub use watch::{Happened, Watch, WatchError, WatchEvent, WatchKind, WatchRequest, WatchTarget};
