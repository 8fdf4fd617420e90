//! Tests of the fakes for behaviour that the tests of the other crates do not cover.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod child;
mod client;
mod defaults;
mod faults;
mod memory_server;
mod process_scan;
mod sandbox;
mod script;
mod subscriptions;
mod usage;
