//! How often a heavy check repeats itself.

/// The number of rounds: `share` in an ordinary run, or what `SWITCHBOARD_ROUNDS` says in a whole
/// one (`cargo xtask whole NAME` sets it for the one check that it runs).
#[expect(
    clippy::disallowed_methods,
    reason = "a test is a front: whoever runs it decides"
)]
pub fn rounds(share: u32) -> u32 {
    match std::env::var("SWITCHBOARD_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("SWITCHBOARD_ROUNDS is a number"),
        Err(_) => share,
    }
}
