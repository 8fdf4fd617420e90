//! Tests of the fake model, of the fake CLI, and of the real CLI with the fake model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod fake_claude;
mod fake_model;
mod json_lines;
mod real;
