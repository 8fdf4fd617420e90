//! Steps: commands with a heading, a time, and a failure that can be pasted into a shell.
//!
//! Invariant: the first step that fails is the last one that runs, and its exit code is ours.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// Exit code for a command line that was not understood, as everywhere in this project.
const USAGE_CODE: u8 = 2;

/// Why a chore stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command of a step ended badly.
    Command { command: String, code: u8 },
    /// A step that is not a single command could not do its work.
    Step { step: &'static str, reason: String },
    /// The command line was not understood.
    Usage(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Command { code, .. } => ExitCode::from(*code),
            Self::Step { .. } => ExitCode::FAILURE,
            Self::Usage(_) => ExitCode::from(USAGE_CODE),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, code } => {
                write!(
                    f,
                    "failed with exit code {code}; to run it again:\n  {command}"
                )
            }
            Self::Step { step, reason } => write!(f, "{step} failed: {reason}"),
            Self::Usage(text) => f.write_str(text),
        }
    }
}

/// What has been run so far, and where.
#[derive(Debug)]
pub(crate) struct Steps {
    /// The workspace root; every command runs there.
    root: PathBuf,
    /// Name and duration of each step, the failed one included, in order.
    timings: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Finds the workspace from what cargo tells at run time: the path known at compile time is stale
    /// when two clones share a target folder.
    pub(crate) fn in_workspace() -> Result<Self, Failure> {
        let root = variable("CARGO_MANIFEST_DIR")
            .and_then(|manifest_dir| Path::new(&manifest_dir).parent().map(Path::to_owned))
            .ok_or_else(|| Failure::Usage("start it as `cargo xtask`".to_owned()))?;
        Ok(Self {
            root,
            timings: Vec::new(),
        })
    }

    /// The workspace root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs one command in the workspace root, its output going straight to ours.
    pub(crate) fn run(&mut self, step: &'static str, command: &mut Command) -> Result<(), Failure> {
        command.current_dir(&self.root);
        let shown = shell_form(command);
        self.perform(step, &shown, || match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Command {
                command: shown.clone(),
                code: code_of(status),
            }),
            Err(error) => Err(Failure::Step {
                step,
                reason: format!("`{shown}` did not start: {error}"),
            }),
        })
    }

    /// Runs a talkative command: of what it says on stderr, all is shown if it fails, and otherwise
    /// the lines `of_interest`.
    pub(crate) fn run_quietly(
        &mut self,
        step: &'static str,
        command: &mut Command,
        of_interest: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        command.current_dir(&self.root);
        let shown = shell_form(command);
        self.perform(step, &shown, || {
            let output = command.output().map_err(|error| Failure::Step {
                step,
                reason: format!("`{shown}` did not start: {error}"),
            })?;
            let success = output.status.success();
            let said = String::from_utf8_lossy(&output.stderr);
            for line in said.lines().filter(|line| !success || of_interest(line)) {
                println!("{line}");
            }
            if success {
                return Ok(());
            }
            Err(Failure::Command {
                command: shown.clone(),
                code: code_of(output.status),
            })
        })
    }

    /// Runs work that is not a single command under the same heading and clock.
    pub(crate) fn perform<T>(
        &mut self,
        step: &'static str,
        what: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        println!("\n==> {step}: {what}");
        let begun = Instant::now();
        let outcome = work();
        self.timings.push((step, begun.elapsed()));
        outcome
    }

    /// Prints the time of each step, then one line on the whole.
    pub(crate) fn summarize(&self, chore: &str, outcome: &Result<(), Failure>) {
        let total = self.timings.iter().map(|(_, spent)| *spent).sum();
        let each: Vec<String> = self
            .timings
            .iter()
            .map(|(step, spent)| format!("{step} {}", seconds(*spent)))
            .collect();
        println!("\n{}", each.join(", "));
        match (outcome, self.timings.last()) {
            (Err(_), Some((step, _))) => {
                println!("{chore}: FAILED in {step} after {}", seconds(total));
            }
            _ => println!(
                "{chore}: passed, {} steps in {}",
                each.len(),
                seconds(total)
            ),
        }
    }
}

/// The one place where a chore makes a child.
#[expect(
    clippy::disallowed_methods,
    reason = "the engine's process rules do not apply to developer chores, which wait for each child"
)]
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    Command::new(name)
}

pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = program("cargo");
    command.args(args);
    command
}

/// What all steps build: everything, with the features that no other crate asks for. The same for
/// all of them, or they would build it anew.
pub(crate) const WORKSPACE: [&str; 3] = ["--workspace", "--features", "switchboard/rmcp"];

/// The one place where a chore reads the environment. An empty variable counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "a chore is a program of its own, and the environment is its input"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether a program can be started at all, asked by its `--version`.
pub(crate) fn answers_version(command: &mut Command) -> bool {
    command
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The code a shell would report, so that death by signal is told from a plain failure.
fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

fn seconds(spent: Duration) -> String {
    format!("{:.0} s", spent.as_secs_f64())
}

/// The command as one would type it, with the variables it sets.
pub(crate) fn shell_form(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value)))
    });
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()).into_owned());
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_shown_so_that_a_shell_understands_it() {
        let mut command = cargo(&["doc", "--no-deps", "it's", ""]);
        command.env("RUSTDOCFLAGS", "-D warnings");

        assert_eq!(
            shell_form(&command),
            r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s' ''"
        );
    }

    #[test]
    fn the_exit_code_of_a_failing_command_is_passed_on() {
        let mut steps = Steps {
            root: std::env::temp_dir(),
            timings: Vec::new(),
        };

        let outcome = steps.run("exit", program("sh").args(["-c", "exit 42"]));

        assert!(
            matches!(&outcome, Err(Failure::Command { command, code: 42 }) if command == "sh -c 'exit 42'"),
            "{outcome:?}"
        );
        assert_eq!(steps.timings.len(), 1);
    }
}
