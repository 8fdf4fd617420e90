//! Requests of servers to users and models, in both protocol eras: elicitation, sampling and roots.
//! Also log messages, and the rate limits on requests and log messages.

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
