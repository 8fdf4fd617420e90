//! All tests, with everything they need built and installed first.

use std::path::Path;

use crate::conformance;
use crate::fixtures;
use crate::step::{Failure, Steps, WORKSPACE, answers_version, cargo};

/// Which profile of `.config/nextest.toml` applies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    Default,
    Ci,
}

/// Runs the doc tests and the conformance suite before our own, so that the runner's own summary stands
/// at the end of the output. Arguments for the runner mean that somebody wants a part of it: neither
/// then.
pub(crate) fn run(
    steps: &mut Steps,
    profile: Profile,
    runner_args: &[String],
) -> Result<(), Failure> {
    let fixtures = fixtures::install(steps)?;
    build(steps)?;
    if runner_args.is_empty() {
        steps.run("doc tests", cargo(&["test", "--doc"]).args(WORKSPACE))?;
        conformance::run_built(steps, &conformance::Order::all(), &fixtures)?;
    }
    run_suite(steps, profile, runner_args, &fixtures)
}

/// Tests start `switchboard` and `scripted-server` as programs, from crates that do not own them.
/// All targets at once: the programs alone would be built with other features, and so twice.
pub(crate) fn build(steps: &mut Steps) -> Result<(), Failure> {
    steps.run("build", cargo(&["build", "--all-targets"]).args(WORKSPACE))
}

fn run_suite(
    steps: &mut Steps,
    profile: Profile,
    runner_args: &[String],
    fixtures: &Path,
) -> Result<(), Failure> {
    let mut command = if answers_version(&mut cargo(&["nextest"])) {
        let mut nextest = cargo(&["nextest", "run", "--all-targets"]);
        if let Profile::Ci = profile {
            nextest.args(["--profile", "ci"]);
        }
        nextest
    } else {
        println!("\ncargo-nextest is not installed: plain `cargo test` runs the suite; to get it:");
        println!("  cargo install --locked cargo-nextest");
        cargo(&["test", "--all-targets"])
    };
    command
        .args(WORKSPACE)
        .args(runner_args)
        .env(fixtures::FOLDER_VARIABLE, fixtures);
    steps.run("tests", &mut command)
}
