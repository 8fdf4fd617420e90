//! Runs each scenario in a separate process of the suite and parses its verdict.
//!
//! The suite can also run a list of scenarios itself, but then it starts thirty clients at once and
//! ignores their exit codes. For a single scenario it counts warnings, timeouts and exit codes as
//! failures.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::steps::{program, to_shell};

/// Scenarios that run at the same time. Each needs three processes: suite, shell and client.
const PARALLEL_RUNS: usize = 2;

/// Time limit of the suite for a client. Most scenarios take 500 ms.
const CLIENT_TIMEOUT_MS: &str = "30000";

/// Time limit for the suite process.
const SUITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Lines of the suite's stderr printed for a failed scenario.
const SHOWN_LINES: usize = 30;

/// The suite and the client under test.
pub(super) struct Runner {
    node: PathBuf,
    entry_point: PathBuf,
    /// The directory of the client. The suite splits the client command at spaces, so the command
    /// is relative to this directory.
    client_dir: PathBuf,
}

/// The result of one scenario.
pub(super) struct Report {
    pub(super) scenario: String,
    pub(super) passed: bool,
    pub(super) checks: Checks,
    stderr: String,
    rerun_command: String,
}

/// Number of checks that passed, and of all checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checks {
    pub(super) passed: u32,
    pub(super) total: u32,
}

impl Report {
    /// The end of the suite's stderr and the command to rerun the scenario.
    pub(super) fn explanation(&self) -> String {
        let lines: Vec<&str> = self.stderr.trim_end().lines().collect();
        let tail = lines.get(lines.len().saturating_sub(SHOWN_LINES)..);
        let tail = tail.unwrap_or_default().join("\n    ");
        format!("    {tail}\n    rerun with:\n    {}", self.rerun_command)
    }
}

impl Runner {
    /// Finds the client in the `examples` directory beside the xtask binary.
    pub(super) fn new(node: PathBuf, suite: &Path) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let examples = own.parent().map(|folder| folder.join("examples"));
        let client_dir = examples.filter(|folder| folder.join("conformance-client").exists());
        Ok(Self {
            node,
            entry_point: suite.join("dist/index.js"),
            client_dir: client_dir.ok_or("the example conformance-client is not built")?,
        })
    }

    pub(super) fn run_serial(&self, version: &str, scenarios: &[&str]) -> Vec<Report> {
        let run = |scenario: &&str| self.run(version, scenario);
        scenarios.iter().map(run).collect()
    }

    /// Runs up to [`PARALLEL_RUNS`] scenarios at the same time.
    pub(super) fn run_parallel(&self, version: &str, scenarios: &[&str]) -> Vec<Report> {
        let queue = Mutex::new(scenarios.iter());
        let next = || queue.lock().ok()?.next();
        let worker = || -> Vec<Report> {
            let run = |scenario: &&str| self.run(version, scenario);
            std::iter::from_fn(next).map(run).collect()
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..PARALLEL_RUNS).map(|_| scope.spawn(worker)).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                let reports = worker.join();
                reports.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().flat_map(join).collect()
        })
    }

    fn run(&self, version: &str, scenario: &str) -> Report {
        let mut command = program(&self.node);
        command
            .arg(&self.entry_point)
            .args(["client", "--command", "./conformance-client"])
            .args(["--scenario", scenario, "--spec-version", version, "--force"])
            .args(["--timeout", CLIENT_TIMEOUT_MS])
            .current_dir(&self.client_dir);
        let rerun_command = format!("cd {} && {}", self.client_dir.display(), to_shell(&command));
        let (passed, stderr) = match run_to_end(&mut command) {
            Ok((passed, stderr)) => (passed, strip_colours(&stderr)),
            Err(error) => (false, error.to_string()),
        };
        let checks = parse_checks(&stderr);
        Report {
            scenario: scenario.to_owned(),
            // If stderr has no count of checks, the suite stopped early, and exit code 0 means
            // nothing.
            passed: passed && checks.is_some(),
            checks: checks.unwrap_or_default(),
            stderr,
            rerun_command,
        }
    }
}

/// Waits up to [`SUITE_TIMEOUT`] for the suite. Returns whether it succeeded, and its stderr.
fn run_to_end(command: &mut Command) -> io::Result<(bool, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let Some(mut stderr) = child.stderr.take() else {
        return Err(io::Error::other("no pipe from the suite"));
    };
    let (sender, receiver) = sync_channel(1);
    // Not joined: the thread ends when all processes that write to the pipe have closed it.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let outcome = stderr.read_to_end(&mut bytes);
        let _ = sender.send(outcome.map(|_| String::from_utf8_lossy(&bytes).into_owned()));
    });
    let stderr = receiver.recv_timeout(SUITE_TIMEOUT);
    if stderr.is_err() {
        // Fails if the suite has exited already, which is fine.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let stderr = stderr.map_err(|_| io::Error::other("the suite timed out"))??;
    Ok((status.success(), stderr))
}

/// Parses `Passed: 3/4, 1 failed, 0 warnings`.
fn parse_checks(stderr: &str) -> Option<Checks> {
    let line = stderr
        .lines()
        .find_map(|line| line.strip_prefix("Passed: "))?;
    let (passed, rest) = line.split_once('/')?;
    let (total, _) = rest.split_once(',')?;
    Some(Checks {
        passed: passed.parse().ok()?,
        total: total.parse().ok()?,
    })
}

/// Removes ANSI colours, which the suite prints even without a terminal.
fn strip_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        plain + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_count_is_parsed() {
        let stderr = "Test Results:\nPassed: 3/4, 1 failed, 0 warnings\n";
        let checks = Checks {
            passed: 3,
            total: 4,
        };
        assert_eq!(parse_checks(stderr), Some(checks));
        assert_eq!(parse_checks("Client test error: no such scenario"), None);
    }

    #[test]
    fn colours_are_removed() {
        let text = "\x1b[90mnow\x1b[0m [check] \x1b[31mFAILURE\x1b[0m it failed";
        assert_eq!(strip_colours(text), "now [check] FAILURE it failed");
    }

    #[test]
    fn status_and_stderr_are_returned() {
        let sh = |script: &str| run_to_end(program("sh").args(["-c", script])).unwrap();
        assert_eq!(sh("echo no >&2; exit 1"), (false, "no\n".to_owned()));
        assert_eq!(sh("echo yes >&2"), (true, "yes\n".to_owned()));
    }
}
