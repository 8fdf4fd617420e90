//! The number of repetitions of a stress test.

/// Returns how often a stress test repeats: `SWITCHBOARD_REPEAT`, or `ci_count` if the variable is
/// unset. `cargo xtask stress NAME` sets the variable for a run at full length.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment is the only input of a test"
)]
pub fn repetitions(ci_count: u32) -> u32 {
    match std::env::var("SWITCHBOARD_REPEAT") {
        Ok(count) => count.parse().expect("SWITCHBOARD_REPEAT is a number"),
        Err(_) => ci_count,
    }
}
