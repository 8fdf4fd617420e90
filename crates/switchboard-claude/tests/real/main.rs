//! The real Claude CLI, which asks a scripted model on loopback.
//!
//! It lies in the folder that `SWITCHBOARD_FIXTURES` names. Without it these tests say so and pass,
//! except in CI, where a missing CLI is a failure. Each has a home of its own, and ends by asserting
//! that no process is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test that had it"
)]
#![allow(
    clippy::unused_async,
    reason = "handlers are async whether or not they wait"
)]

mod changes;
mod permission;
mod scene;
mod servers;
mod session;
mod tools;
