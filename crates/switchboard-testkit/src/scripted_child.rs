//! Scripted servers as child processes: the path of the binary, and the files that it writes.

use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::process_scan::TAG_VARIABLE;
use crate::script::Script;

/// The path of the binary `scripted-server` in the build directory of the running test.
///
/// Cargo builds the binary only for the tests of this crate. Other crates use the last build, so
/// run `cargo build -p switchboard-testkit` before their tests.
pub fn scripted_server() -> PathBuf {
    find_program(&format!("scripted-server{EXE_SUFFIX}"))
}

/// The path of a binary of this crate.
pub(crate) fn find_program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let places: Vec<_> = test.ancestors().skip(1).take(2).collect();
    let found = places
        .iter()
        .rev()
        .map(|place| place.join(name))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("no {name} in {places:?}; run `cargo build -p switchboard-testkit`")
    })
}

impl Script {
    /// The command that plays this script as a child process. `tag` marks the process for
    /// [`processes_with_tag`](crate::processes_with_tag).
    #[expect(
        clippy::disallowed_methods,
        reason = "the test decides how the child is spawned"
    )]
    pub fn command(&self, tag: &str) -> Command {
        let mut command = Command::new(scripted_server());
        command.arg(self.to_json()).env(TAG_VARIABLE, tag);
        command
    }
}

/// Number of lines in the file to which the step `count` appends; 0 if the file does not exist.
pub fn count_lines(path: impl AsRef<Path>) -> usize {
    read_or_empty(path.as_ref()).lines().count()
}

/// The messages in the record file of a server, see [`Script::record`](field@Script::record), or of
/// a fake CLI, see [`FakeClaude::record`](field@crate::fake_claude::FakeClaude::record). A line
/// that is not JSON is returned as a JSON string.
pub fn read_record(path: impl AsRef<Path>) -> Vec<Value> {
    let message = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| line.into());
    read_or_empty(path.as_ref()).lines().map(message).collect()
}

fn read_or_empty(path: &Path) -> String {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => panic!("cannot read {}: {error}", path.display()),
    }
}
