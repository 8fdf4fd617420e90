//! One call from a shell: `switchboard call` against a bare program on rmcp that does the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Wanted;
use crate::clients;
use crate::job::Figures;
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::Runner;

const PART: &str = "shell";
const REPEATS: usize = 21;
const ANSWER: &str = "hello from a shell";

pub fn run(runner: &Runner, report: &mut Report, wanted: &Wanted) {
    if !wanted.has(PART, "one call") {
        return;
    }
    report.section("one call from a shell");
    let Some(program) = switchboard() else {
        return report.skip(
            PART,
            "`cargo build --release` in the project's root builds the binary",
        );
    };
    let home = tempfile::tempdir().expect("a folder");
    let config = home.path().join("mcp.json");
    let entry =
        serde_json::json!({ "mcpServers": { "neutral": { "command": clients::server() } } });
    std::fs::write(&config, entry.to_string()).expect("a file");

    let mut samples = Samples::default();
    let wall =
        |command: &mut Command| Figures::default().with("wall", runner.wall(command, ANSWER));
    for _ in 0..REPEATS {
        samples.rmcp.push(wall(&mut rmcp_call(home.path())));
        samples
            .ours
            .push(wall(&mut switchboard_call(&program, home.path(), &config)));
    }
    let line = Line::of("wall time", Unit::Millis, "wall", &samples);
    report.add(line.target(Target::RatioAtMost(1.5)));
}

fn rmcp_call(home: &Path) -> Command {
    let mut command = hermetic(&clients::server().with_file_name("rmcp-call"), home);
    command.arg(clients::server()).arg(ANSWER);
    command
}

fn switchboard_call(program: &Path, home: &Path, config: &Path) -> Command {
    let mut command = hermetic(program, home);
    command
        .arg("--mcp-config")
        .arg(config)
        .args(["call", "--yes", "mcp__neutral__echo"])
        .arg(format!("message={ANSWER}"));
    command
}

/// Nothing of the user's own settings has a say.
fn hermetic(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).current_dir(home);
    command
}

/// The binary that ships: beside this one where they share a target folder, else in the project's.
fn switchboard() -> Option<PathBuf> {
    let beside = clients::server().with_file_name("switchboard");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/switchboard");
    [beside, project].into_iter().find(|path| path.exists())
}
