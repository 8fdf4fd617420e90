//! Requests from servers to users and models, in both eras: elicitation, sampling, roots, logging,
//! and their limits.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod scripted_interaction;

mod form_elicitation;
mod logging;
mod rate_limits;
mod roots;
mod sampling;
mod url_elicitation;
mod url_elicitation_required;
