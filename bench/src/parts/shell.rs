//! One call from a shell: `switchboard call` compared with a minimal rmcp program.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Filter;
use crate::clients;
use crate::job::Figures;
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::Runner;

const PART: &str = "shell";
/// Number of copies, and runs of each copy.
const COPIES: usize = 7;
const RUNS: usize = 5;
const MESSAGE: &str = "hello from a shell";

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    if !filter.matches(PART, "one call") {
        return;
    }
    report.section("one call from a shell");
    let Some(program) = switchboard() else {
        return report.skip(
            PART,
            "the release binary is not built; run `cargo build --release`",
        );
    };
    let home = tempfile::tempdir().expect("a temporary directory can be created");
    let config = home.path().join("mcp.json");
    let entry =
        serde_json::json!({ "mcpServers": { "neutral": { "command": clients::server() } } });
    std::fs::write(&config, entry.to_string()).expect("the config can be written");

    let mut samples = Samples::default();
    let wall =
        |command: &mut Command| Figures::default().with("wall", runner.wall(command, MESSAGE));
    let rmcp_program = clients::server().with_file_name("rmcp-call");
    for _ in 0..COPIES {
        let (rmcp_copy, switchboard_copy) = (
            fresh_copy(&rmcp_program, home.path()),
            fresh_copy(&program, home.path()),
        );
        // The first run is not measured: it reads the new file for the first time.
        for turn in 0..=RUNS {
            let rmcp = wall(&mut rmcp_call(&rmcp_copy, home.path()));
            let ours = wall(&mut switchboard_call(
                &switchboard_copy,
                home.path(),
                &config,
            ));
            if turn > 0 {
                samples.rmcp.push(rmcp);
                samples.ours.push(ours);
            }
        }
    }
    let line = Line::of("wall time", Unit::Millis, "wall", &samples);
    report.add(line.target(Target::RatioAtMost(1.5)));
}

/// Makes a fresh copy, like an installation. The start time of a program depends on how its file
/// was written: a file written by a linker is up to a fifth slower to map than a copy of it.
fn fresh_copy(program: &Path, home: &Path) -> PathBuf {
    let copy = home.join(program.file_name().expect("the path names a file"));
    if copy.exists() {
        std::fs::remove_file(&copy).expect("the old copy can be removed");
    }
    std::fs::copy(program, &copy).expect("the program can be copied");
    copy
}

fn rmcp_call(program: &Path, home: &Path) -> Command {
    let mut command = isolated_command(program, home);
    command.arg(clients::server()).arg(MESSAGE);
    command
}

fn switchboard_call(program: &Path, home: &Path, config: &Path) -> Command {
    let mut command = isolated_command(program, home);
    command
        .arg("--mcp-config")
        .arg(config)
        .args(["call", "--yes", "mcp__neutral__echo"])
        .arg(format!("message={MESSAGE}"));
    command
}

/// Clears the environment, so that the user's settings have no effect.
fn isolated_command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).current_dir(home);
    command
}

/// The release binary of `switchboard`: beside this program if both are built into the same target
/// directory, otherwise in the target directory of the project. `None` if it is not built.
fn switchboard() -> Option<PathBuf> {
    let beside = clients::server().with_file_name("switchboard");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/switchboard");
    [beside, project].into_iter().find(|path| path.exists())
}
