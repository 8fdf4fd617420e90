//! Servers of other programs: which files are read, what becomes of their entries, and what is said of
//! the rest.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

mod clients;
mod files;
mod support;
