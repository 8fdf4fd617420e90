//! Runs all tests, after building and installing what they need.

use std::path::Path;

use crate::conformance::{self, VersionSelection};
use crate::steps::{Failure, Steps, WORKSPACE, cargo, is_installed};
use crate::{build_all_targets, fixtures};

/// Profile of `.config/nextest.toml`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    Default,
    Ci,
}

/// Runs the doc tests and the conformance suite, then the test suite.
///
/// The test suite runs last so that the summary of the test runner ends the output. With
/// `runner_args` only the test suite runs: the arguments select a part of it.
pub(crate) fn run(
    steps: &mut Steps,
    profile: Profile,
    runner_args: &[String],
) -> Result<(), Failure> {
    let fixtures = fixtures::install(steps)?;
    build_all_targets::run(steps)?;
    if runner_args.is_empty() {
        steps.run("doc tests", cargo(&["test", "--doc"]).args(WORKSPACE))?;
        conformance::run_built(steps, &VersionSelection::all(), &fixtures)?;
    }
    run_suite(steps, profile, runner_args, &fixtures)
}

fn run_suite(
    steps: &mut Steps,
    profile: Profile,
    runner_args: &[String],
    fixtures: &Path,
) -> Result<(), Failure> {
    let mut command = if is_installed(&mut cargo(&["nextest"])) {
        let mut nextest = cargo(&["nextest", "run", "--all-targets"]);
        if let Profile::Ci = profile {
            nextest.args(["--profile", "ci"]);
        }
        nextest
    } else {
        println!("\ncargo-nextest is not installed, using `cargo test`; install it with:");
        println!("  cargo install --locked cargo-nextest");
        cargo(&["test", "--all-targets"])
    };
    command
        .args(WORKSPACE)
        .args(runner_args)
        .env(fixtures::FOLDER_VARIABLE, fixtures);
    steps.run("tests", &mut command)
}
