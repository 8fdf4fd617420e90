//! Builds all targets of the workspace once, before any step that starts built programs.

use crate::steps::{Failure, Steps, WORKSPACE, cargo};

/// Builds every target in one cargo call.
///
/// Tests start `switchboard` and `scripted-server` as programs from crates that do not own these
/// binaries. Building only the binaries would select other features and compile everything twice.
pub(crate) fn run(steps: &mut Steps) -> Result<(), Failure> {
    steps.run("build", cargo(&["build", "--all-targets"]).args(WORKSPACE))
}
