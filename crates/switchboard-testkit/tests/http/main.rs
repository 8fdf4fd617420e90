//! Servers on loopback, seen by a client that knows nothing but sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failed step is a failed test"
)]

mod client;
mod faults;
mod legacy;
mod modern;
mod offers;
mod proxy;
mod raw;
mod server;
mod sse;
mod tasks;
