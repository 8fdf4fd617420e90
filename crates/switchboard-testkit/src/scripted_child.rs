//! The same scripts as real child processes: where the binary is, and what it left in files.

use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::process_scan::TAG_VARIABLE;
use crate::script::Script;

/// Where the binary `scripted-server` is: beside the running test, in the same build directory.
///
/// Cargo builds it for this crate's own tests only. The tests of another crate find the one that was
/// built last, so `cargo build -p switchboard-testkit` goes before them.
pub fn scripted_server() -> PathBuf {
    find_program(&format!("scripted-server{EXE_SUFFIX}"))
}

/// A binary of this crate.
pub(crate) fn find_program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let places: Vec<_> = test.ancestors().skip(1).take(2).collect();
    let found = places
        .iter()
        .rev()
        .map(|place| place.join(name))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("no {name} in {places:?}: run `cargo build -p switchboard-testkit` first")
    })
}

impl Script {
    /// The command that plays this script as a process, marked with a tag for
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

/// How many lines the step `count` has written to this file; none if it is not there.
pub fn count_lines(path: impl AsRef<Path>) -> usize {
    read_if_there(path.as_ref()).lines().count()
}

/// The messages that a server with `record` has written to this file. What was not JSON is a string.
pub fn read_record(path: impl AsRef<Path>) -> Vec<Value> {
    let message = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| line.into());
    read_if_there(path.as_ref()).lines().map(message).collect()
}

fn read_if_there(path: &Path) -> String {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => panic!("cannot read {}: {error}", path.display()),
    }
}
