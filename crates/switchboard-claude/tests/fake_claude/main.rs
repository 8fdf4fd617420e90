//! Tests with a fake CLI, for behaviour that a test cannot provoke in the real CLI.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]
#![allow(clippy::unused_async, reason = "handlers must be async")]

mod cli_exit;
mod cli_requests;
mod harness;
mod launch;
mod load;
mod output_lines;
