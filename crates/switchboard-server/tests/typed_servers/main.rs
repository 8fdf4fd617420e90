//! Servers made of typed functions, called without a host.
//!
//! The tests in `crates/switchboard/tests/typed_servers` call tools through a host.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod resources_and_prompts;
mod schemas;

use switchboard_server::InProcessServer;

fn empty_server() -> InProcessServer {
    InProcessServer::new("test", "1.0")
}
