//! A stand-in for the CLI: what the real one cannot be made to do.
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

mod asked;
mod crowd;
mod death;
mod launch;
mod lines;
mod scene;
