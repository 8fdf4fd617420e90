//! A runtime between AI agents and MCP servers.
//!
//! A [`Host`] starts MCP servers or connects to them, publishes their tools under names that a
//! model can call, checks permissions, delivers each call at most once, reconnects servers that
//! went down, and renders results so that they are safe to show to a model.
//!
//! ```no_run
//! use switchboard::{Host, Readiness};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder()
//!     .environment(std::env::vars())
//!     .stdio("time", "uvx", ["mcp-server-time"])
//!     .allow("mcp__time__get_*")
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
//! The same with the servers of a `.mcp.json` file:
//!
//! ```no_run
//! use std::collections::HashMap;
//!
//! use switchboard::config::{ConfigSources, Trust, load};
//! use switchboard::{Host, Readiness};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let environment: HashMap<String, String> = std::env::vars().collect();
//! let sources = ConfigSources {
//!     project: Some(".mcp.json".into()),
//!     ..ConfigSources::default()
//! };
//! let loaded = load(&sources, &environment);
//! for diagnostic in &loaded.diagnostics {
//!     eprintln!("{diagnostic}");
//! }
//! // Approves the servers of the project for this run. A real program asks the user first.
//! let trust = Trust::project_for_this_run();
//! let host = Host::builder()
//!     .environment(environment)
//!     .config(loaded.config, &trust)
//!     .start()?;
//! host.wait_for(Readiness::All).await;
//! # Ok(())
//! # }
//! ```
//!
//! | task | start here |
//! |---|---|
//! | load `.mcp.json` and settings files | [`config::load`], [`HostBuilder::config`], [`Host::apply_config`] |
//! | offer functions of the program as an MCP server | [`InProcessServer`], [`HostBuilder::in_process_server`] |
//! | put local tools beside MCP tools in an agent loop | [`registry`] |
//! | read resources, get prompts, complete arguments | [`Host::read_resource`], [`Host::get_prompt`], [`Host::complete`], [`query`] |
//! | watch a resource or a tool result for changes | [`Host::watch`], [`Host::next_watch_event`], [`watch`] |
//! | let a model manage its servers | [`Registry::register_management_tools`] |
//! | answer permission requests, elicitation and sampling | [`Interaction`], [`HostBuilder::interaction`] |
//! | reach a server by other means than those of the host | [`transport`], [`HostBuilder::transport`], [`HostBuilder::connector`] |
//! | send a request of any method to a server | [`Host::request`] |
//! | authorize requests to remote servers | [`auth`], [`HostBuilder::auth`] |
//! | observe the host | [`Host::events`], [`Host::status`], `tracing` |
//!
//! The features `http` (servers behind a URL) and `stdio` (servers as child processes) are on by
//! default. A program that does not need them, for example because it has only
//! [in-process servers](in_process), can turn them off.
//!
//! The library never prints, and it reads neither the environment nor the home directory. The
//! embedding program passes the variables and paths to it.
//!
//! [`Registry::register_management_tools`]: registry::Registry::register_management_tools

#![forbid(unsafe_code)]
// If the feature `http` or `stdio` is off, the functions that only its transport calls are unused.
// With this attribute, these functions need no `cfg`.
#![cfg_attr(not(all(feature = "http", feature = "stdio")), allow(dead_code))]

pub mod cache;
pub mod call;
mod call_context;
pub mod catalog;
pub mod content;
pub mod event;
#[cfg(all(feature = "http", feature = "stdio"))]
mod headers_helper;
pub mod host;
mod host_state;
pub mod id;
pub mod in_process;
pub mod interaction;
pub mod limits;
mod management_tools;
pub mod mention;
pub mod permission;
#[cfg(feature = "stdio")]
pub mod process;
pub mod query;
pub mod registry;
mod schema_check;
mod server;
pub mod status;
pub mod transport;
pub mod watch;

pub mod auth {
    //! Providers of credentials for requests to remote servers.

    pub use switchboard_client::auth::{
        AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Bearer, Challenge,
        ChallengeScheme, Credential, DEFAULT_PRINCIPAL, StaticHeaders,
    };
}

#[doc(inline)]
pub use switchboard_config as config;
#[doc(inline)]
pub use switchboard_wire::{mcp, naming, uri_template};

pub mod elicitation {
    //! Elicitation requests: a server asks the user to fill in a form or to open a URL.

    pub use switchboard_client::elicitation::*;
}

#[doc(hidden)]
pub mod schema {
    //! Validation of tool arguments outside of a call, for the command line.

    pub use switchboard_wire::schema::{CompiledSchema, Validation, Violation};
}

pub mod sampling {
    //! Sampling requests: a server asks for a completion by a model.

    pub use switchboard_client::sampling::{IncludeContext, SamplingRequest};
}

#[cfg(feature = "http")]
pub mod network {
    //! Proxies and trusted certificates for connections to remote servers.

    pub use switchboard_client::http::{Network, ProxyError};
}

pub mod wire_tap {
    //! A trait that receives the raw messages between the host and servers outside this process,
    //! for logs and debugging.

    pub use switchboard_client::wire_tap::{Direction, WireTap};
}

pub use call::{Call, CallContext, CallError};
pub use content::Output;
pub use event::Event;
pub use host::{Host, HostBuilder, Readiness, ServerError, StartError};
pub use in_process::{InProcessServer, ToolContext, ToolError, ToolResult};
pub use interaction::Interaction;
