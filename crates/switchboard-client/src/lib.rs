//! One connection to one MCP server.
//!
//! [`connect`](connect::connect) opens a transport (child process, streamable HTTP, HTTP+SSE of
//! 2024-11-05, byte stream, or a server in this process), negotiates the protocol version and
//! returns a live session. The session sends requests, answers the requests of the server through a
//! `ClientHandler`, and reports for each request whether it reached the server.
//!
//! This crate neither reads config files nor reconnects. The crate `switchboard` builds on this
//! crate: `switchboard` manages many servers, reconnects, checks permissions and formats results.
//! Modules that are hidden in this documentation are internal to the switchboard crates and have no
//! stability promise.
//!
//! An [`AuthProvider`](auth::AuthProvider) supplies the credentials for a remote server:
//!
//! ```
//! use switchboard_client::auth::{AuthProvider, AuthRequest, Bearer};
//! use switchboard_wire::id::ServerName;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let provider = Bearer::new("token").unwrap();
//! let server = ServerName::new("tickets").unwrap();
//! let request = AuthRequest::new(&server, "https://tickets.example/mcp");
//! let credential = provider.credential(request).await.unwrap();
//! assert_eq!(credential.names().collect::<Vec<_>>(), ["authorization"]);
//! # });
//! ```

#![forbid(unsafe_code)]
// If `http` or `stdio` is disabled, the functions that only the disabled transport calls are
// unused. Allow that, instead of disabling each function separately.
#![cfg_attr(not(all(feature = "http", feature = "stdio")), allow(dead_code))]

pub mod auth;
#[doc(hidden)]
pub mod client_handler;
#[doc(hidden)]
pub mod connect;
mod connect_stage;
mod deadlines;
mod delivery;
pub mod elicitation;
#[cfg(feature = "http")]
pub mod http;
#[doc(hidden)]
pub mod local_address;
#[doc(hidden)]
pub mod message_transport;
#[doc(hidden)]
pub mod question_limit;
mod rate_limit;
pub mod roots;
pub mod sampling;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod stderr;
pub mod wire_tap;
mod writer;

#[doc(hidden)]
pub use connect_stage::as_milliseconds;
pub use connect_stage::{ConnectAttempt, ConnectStage, CurrentStage};
pub use deadlines::Deadlines;
pub use delivery::Delivery;
