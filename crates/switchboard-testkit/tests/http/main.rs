//! Tests of the HTTP fakes at the level of bytes, through plain sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod client;
mod fault_proxy;
mod faults;
mod legacy;
mod modern;
mod raw_server;
mod server;
