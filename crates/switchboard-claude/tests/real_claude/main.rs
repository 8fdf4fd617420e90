//! Tests with the real Claude CLI and a scripted model on loopback.
//!
//! `SWITCHBOARD_FIXTURES` names the directory of the CLI. Without the CLI these tests print a
//! notice and pass, except in CI, where they fail. Each test has its own home directory and finally
//! asserts that no process is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]
#![allow(clippy::unused_async, reason = "handlers must be async")]

mod harness;
mod permission;
mod servers;
mod session;
mod tool_changes;
mod tools;
