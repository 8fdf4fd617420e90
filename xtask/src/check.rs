//! What can be judged without running a test: formatting, lints, documentation and what of
//! it is made from the code, dependency rules.

use crate::docs;
use crate::step::{Failure, Steps, WORKSPACE, answers_version, cargo};

pub(crate) fn run(steps: &mut Steps) -> Result<(), Failure> {
    steps.run("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    // A workspace of its own.
    let fuzz = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
    steps.run("format of fuzz", &mut cargo(&fuzz))?;
    steps.run(
        "clippy",
        cargo(&["clippy", "--all-targets"])
            .args(WORKSPACE)
            .args(["--", "-D", "warnings"]),
    )?;
    steps.run(
        "docs",
        cargo(&["doc", "--no-deps"])
            .args(WORKSPACE)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    docs::check(steps)?;
    check_dependencies(steps)
}

/// The advisories are left out: their database comes from the network and changes under an unchanged
/// commit.
fn check_dependencies(steps: &mut Steps) -> Result<(), Failure> {
    if !answers_version(&mut cargo(&["deny"])) {
        println!("\n==> deny: skipped, cargo-deny is not installed; to get it:");
        println!("  cargo install --locked cargo-deny");
        return Ok(());
    }
    steps.run(
        "deny",
        &mut cargo(&["deny", "check", "bans", "licenses", "sources"]),
    )
}
