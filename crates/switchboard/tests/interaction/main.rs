//! What servers ask of people and models, in both eras, and what becomes of those who ask for too
//! much. The ids E1 to E11 are those of the list of hostile behaviours that the project keeps.

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
