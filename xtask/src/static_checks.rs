//! Checks that run no tests: formatting, lints, module cycles, documentation, generated files,
//! tests named in `docs/invariants.md`, and dependency rules.

use crate::steps::{Failure, Steps, WORKSPACE, cargo, is_installed};
use crate::{generated_docs, invariants, module_cycles};

pub(crate) fn run(steps: &mut Steps) -> Result<(), Failure> {
    steps.run("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    // fuzz/ is a separate workspace, which `--all` does not cover.
    let fuzz = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
    steps.run("format fuzz", &mut cargo(&fuzz))?;
    module_cycles::check(steps)?;
    steps.run(
        "clippy",
        cargo(&["clippy", "--all-targets"])
            .args(WORKSPACE)
            .args(["--", "-D", "warnings"]),
    )?;
    // An embedding program may need only one kind of server, or only in-process ones.
    for features in ["", "http", "stdio"] {
        let mut check = cargo(&["check", "--package", "switchboard", "--no-default-features"]);
        steps.run("features", check.args(["--features", features]))?;
    }
    steps.run(
        "docs",
        cargo(&["doc", "--no-deps"])
            .args(WORKSPACE)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    generated_docs::check(steps)?;
    invariants::check(steps)?;
    check_dependencies(steps)
}

/// Runs cargo-deny without advisories: their database is fetched from the network, so the result
/// would change without a commit.
fn check_dependencies(steps: &mut Steps) -> Result<(), Failure> {
    if !is_installed(&mut cargo(&["deny"])) {
        println!("\n==> deny: skipped, cargo-deny is not installed; install it with:");
        println!("  cargo install --locked cargo-deny");
        return Ok(());
    }
    steps.run(
        "deny",
        &mut cargo(&["deny", "check", "bans", "licenses", "sources"]),
    )
}
