//! The testkit, seen from the tests that will use it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failed step is a failed test"
)]

mod child;
mod client;
mod cost;
mod faults;
mod memory;
mod offers;
mod polite;
mod process;
mod sandbox;
mod script;
mod subscriptions;
mod tasks;
