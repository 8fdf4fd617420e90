//! The command line at work on real servers: `cargo xtask demo`.

use crate::fixtures;
use crate::step::{Failure, Steps, cargo};

/// Its entries point into the fixtures folder by `${SWITCHBOARD_FIXTURES}`.
const CONFIG: &str = "xtask/demo.mcp.json";

pub(crate) fn run(steps: &mut Steps, switchboard_args: &[String]) -> Result<(), Failure> {
    let fixtures = fixtures::install(steps)?;
    let mut command = cargo(&["run", "--quiet", "--package", "switchboard-cli", "--"]);
    command
        .args(["--mcp-config", CONFIG])
        .args(switchboard_args)
        .env(fixtures::FOLDER_VARIABLE, fixtures);
    steps.run("demo", &mut command)
}
