//! A stand-in for the CLI: what the real one cannot be made to do.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test that had it"
)]

mod asked;
mod crowd;
mod death;
mod launch;
mod lines;
mod scene;
