//! Servers made of typed functions, called without a host.
//!
//! Calls of tools are tested with a host, in `crates/switchboard/tests/typed_servers`.

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
