//! MCP on the wire, without I/O.
//!
//! This crate holds the protocol types ([`mcp`]), the JSON-RPC envelope, encoding and decoding of
//! messages, line and server-sent-event framing, tool naming, text sanitising and the limits that
//! bound them. It opens no files or sockets, does not read the clock and spawns no tasks.
//!
//! Modules that are hidden in this documentation are internal to the switchboard crates and have no
//! stability promise.
#![forbid(unsafe_code)]

mod byte_streams;
#[doc(hidden)]
pub mod decode;
#[doc(hidden)]
pub mod encode;
mod future;
#[doc(hidden)]
pub mod header_params;
pub mod id;
#[doc(hidden)]
pub mod jsonrpc;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod lines;
mod local_server;
pub mod mcp;
#[doc(hidden)]
pub mod memory_budget;
pub mod naming;
mod oversized;
mod panic;
#[doc(hidden)]
pub mod redact;
#[doc(hidden)]
pub mod scan;
#[cfg(feature = "schema")]
#[doc(hidden)]
pub mod schema;
#[doc(hidden)]
pub mod secret;
#[doc(hidden)]
pub mod sse;
#[doc(hidden)]
pub mod sync;
pub mod text;
mod transport;
pub mod uri_template;

pub use byte_streams::{ByteStreams, Connector};
pub use future::BoxFuture;
pub use jsonrpc::InvalidMessage;
pub use limits::Limits;
#[doc(hidden)]
pub use local_server::InstanceKind;
pub use local_server::{
    LocalCall, LocalServer, ProgressReporter, ProgressSink, ServerInstance, ServerNotification,
};
#[doc(hidden)]
pub use panic::panic_message;
#[cfg(feature = "schema")]
pub use schema::Violation;
pub use secret::Secret;
pub use transport::Transport;
