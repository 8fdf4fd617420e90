//! The scripted model and the real CLI that asks it, spoken to by hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failed step is a failed test"
)]

mod fake_claude;
mod lines;
mod model;
mod real;
