//! Runs the commands of a task with a heading, a duration and a rerun command on failure.
//!
//! Invariant: a task stops at its first failed step and exits with the exit code of that step.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// Exit code for a usage error; the `switchboard` binary uses the same.
const USAGE_CODE: u8 = 2;

/// Why a task stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command of a step exited with a failure.
    Command { command: String, code: u8 },
    /// A step that is not a single command failed.
    Step { step: &'static str, reason: String },
    /// The command line is invalid.
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
                write!(f, "failed with exit code {code}; rerun with:\n  {command}")
            }
            Self::Step { step, reason } => write!(f, "{step} failed: {reason}"),
            Self::Usage(text) => f.write_str(text),
        }
    }
}

/// The steps run so far and the directory they run in.
#[derive(Debug)]
pub(crate) struct Steps {
    /// The workspace root; every command runs there.
    root: PathBuf,
    /// Name and duration of each step, the failed one included, in order.
    timings: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Takes the workspace root from cargo's run-time environment. The compile-time path is stale
    /// when two clones share a target directory.
    pub(crate) fn in_workspace() -> Result<Self, Failure> {
        let root = variable("CARGO_MANIFEST_DIR")
            .and_then(|manifest_dir| Path::new(&manifest_dir).parent().map(Path::to_owned))
            .ok_or_else(|| {
                Failure::Usage("xtask must be started by cargo; run: cargo xtask".to_owned())
            })?;
        Ok(Self {
            root,
            timings: Vec::new(),
        })
    }

    /// The workspace root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs one command in the workspace root with inherited stdout and stderr.
    pub(crate) fn run(&mut self, step: &'static str, command: &mut Command) -> Result<(), Failure> {
        command.current_dir(&self.root);
        let shown = to_shell(command);
        self.run_work(step, &shown, || match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Command {
                command: shown.clone(),
                code: code_from_status(status),
            }),
            Err(error) => Err(Failure::Step {
                step,
                reason: format!("`{shown}` did not start: {error}"),
            }),
        })
    }

    /// Runs one command and captures its output. On failure prints all of stderr, on success only
    /// the lines that `is_relevant` selects.
    pub(crate) fn run_quietly(
        &mut self,
        step: &'static str,
        command: &mut Command,
        is_relevant: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        command.current_dir(&self.root);
        let shown = to_shell(command);
        self.run_work(step, &shown, || {
            let output = command.output().map_err(|error| Failure::Step {
                step,
                reason: format!("`{shown}` did not start: {error}"),
            })?;
            let success = output.status.success();
            let stderr = String::from_utf8_lossy(&output.stderr);
            for line in stderr.lines().filter(|line| !success || is_relevant(line)) {
                println!("{line}");
            }
            if success {
                return Ok(());
            }
            Err(Failure::Command {
                command: shown.clone(),
                code: code_from_status(output.status),
            })
        })
    }

    /// Runs a closure as a step, with the same heading and timing as a command.
    pub(crate) fn run_work<T>(
        &mut self,
        step: &'static str,
        heading: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        println!("\n==> {step}: {heading}");
        let started = Instant::now();
        let outcome = work();
        self.timings.push((step, started.elapsed()));
        outcome
    }

    /// Prints the duration of each step, then the result and the total.
    pub(crate) fn summarize(&self, task: &str, outcome: &Result<(), Failure>) {
        let total = self.timings.iter().map(|(_, spent)| *spent).sum();
        let each: Vec<String> = self
            .timings
            .iter()
            .map(|(step, spent)| format!("{step} {}", seconds(*spent)))
            .collect();
        println!("\n{}", each.join(", "));
        match (outcome, self.timings.last()) {
            (Err(_), Some((step, _))) => {
                println!("{task}: FAILED in {step} after {}", seconds(total));
            }
            _ => println!("{task}: passed, {} steps in {}", each.len(), seconds(total)),
        }
    }
}

/// Creates a command. All child processes of xtask are created here.
#[expect(
    clippy::disallowed_methods,
    reason = "developer tasks wait for each child, so the engine's process rules do not apply"
)]
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    Command::new(name)
}

pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = program("cargo");
    command.args(args);
    command
}

/// Package and feature selection of all cargo steps that build the whole workspace. Steps with
/// different selections would rebuild the workspace.
pub(crate) const WORKSPACE: [&str; 3] = ["--workspace", "--features", "switchboard/rmcp"];

/// Reads an environment variable; an empty value counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is a program, and the environment is its input"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Runs the program with `--version` to see whether it is installed.
pub(crate) fn is_installed(command: &mut Command) -> bool {
    command
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The exit code a shell would report: 128 plus the signal number for a signal.
fn code_from_status(status: ExitStatus) -> u8 {
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

/// The command as a shell command line, including the environment variables it sets.
pub(crate) fn to_shell(command: &Command) -> String {
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
    fn failed_command_is_shell_quoted() {
        let mut command = cargo(&["doc", "--no-deps", "it's", ""]);
        command.env("RUSTDOCFLAGS", "-D warnings");

        assert_eq!(
            to_shell(&command),
            r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s' ''"
        );
    }

    #[test]
    fn exit_code_is_passed_on() {
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
