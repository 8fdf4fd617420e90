//! Runs scenarios, each in a process of the suite of its own, and reads its verdict.
//!
//! The suite can run a whole set by itself, but then thirty clients at once, and without looking at
//! how a client ends. One at a time it counts warnings, timeouts and exit codes as failures.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::step::{program, shell_form};

/// How many run at the same time. Each is the suite, a shell and a client.
const SIDE_BY_SIDE: usize = 2;

/// What the suite gives a client, in milliseconds. Most need half a second.
const CLIENT_PATIENCE: &str = "30000";

/// When the suite itself is taken to hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of what the suite says of a failure is shown.
const SHOWN_LINES: usize = 30;

/// The suite, and the client it tests.
pub(super) struct Runner {
    node: PathBuf,
    entry_point: PathBuf,
    /// Where the client is. The suite cuts its command at spaces, so that it is started from its own
    /// folder.
    folder: PathBuf,
}

/// What came of one scenario.
pub(super) struct Report {
    pub(super) scenario: String,
    pub(super) passed: bool,
    pub(super) checks: Checks,
    said: String,
    again: String,
}

/// How many checks counted, and passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checks {
    pub(super) passed: u32,
    pub(super) counted: u32,
}

impl Report {
    /// What the suite said at last, and how to see it again.
    pub(super) fn explanation(&self) -> String {
        let lines: Vec<&str> = self.said.trim_end().lines().collect();
        let tail = lines.get(lines.len().saturating_sub(SHOWN_LINES)..);
        let tail = tail.unwrap_or_default().join("\n    ");
        format!("    {tail}\n    to run it again:\n    {}", self.again)
    }
}

impl Runner {
    /// The client lies beside this program, where cargo builds examples.
    pub(super) fn new(node: PathBuf, suite: &Path) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = own.parent().map(|folder| folder.join("examples"));
        let folder = folder.filter(|folder| folder.join("conformance-client").exists());
        Ok(Self {
            node,
            entry_point: suite.join("dist/index.js"),
            folder: folder.ok_or("the example conformance-client is not built")?,
        })
    }

    /// One after the other.
    pub(super) fn in_turn(&self, version: &str, scenarios: &[&str]) -> Vec<Report> {
        let run = |scenario: &&str| self.run(version, scenario);
        scenarios.iter().map(run).collect()
    }

    /// A few at a time.
    pub(super) fn side_by_side(&self, version: &str, scenarios: &[&str]) -> Vec<Report> {
        let waiting = Mutex::new(scenarios.iter());
        let next = || waiting.lock().ok()?.next();
        let lane = || -> Vec<Report> {
            let run = |scenario: &&str| self.run(version, scenario);
            std::iter::from_fn(next).map(run).collect()
        };
        thread::scope(|scope| {
            let lanes: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(lane)).collect();
            let finish = |lane: thread::ScopedJoinHandle<'_, _>| {
                let reports = lane.join();
                reports.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            lanes.into_iter().flat_map(finish).collect()
        })
    }

    fn run(&self, version: &str, scenario: &str) -> Report {
        let mut command = program(&self.node);
        command
            .arg(&self.entry_point)
            .args(["client", "--command", "./conformance-client"])
            .args(["--scenario", scenario, "--spec-version", version, "--force"])
            .args(["--timeout", CLIENT_PATIENCE])
            .current_dir(&self.folder);
        let again = format!("cd {} && {}", self.folder.display(), shell_form(&command));
        let (passed, said) = match complete(&mut command) {
            Ok((passed, said)) => (passed, without_colours(&said)),
            Err(error) => (false, error.to_string()),
        };
        let checks = counted(&said);
        Report {
            scenario: scenario.to_owned(),
            // Without a count the suite did not get as far as a verdict.
            passed: passed && checks.is_some(),
            checks: checks.unwrap_or_default(),
            said,
            again,
        }
    }
}

/// Waits for the end of the suite, within bounds: whether it is content, and what it said.
fn complete(command: &mut Command) -> io::Result<(bool, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let Some(mut stderr) = child.stderr.take() else {
        return Err(io::Error::other("no pipe to the suite"));
    };
    let (sender, receiver) = sync_channel(1);
    // Not joined: it ends with the pipe, at the latest when the child is killed.
    thread::spawn(move || {
        let mut said = Vec::new();
        let outcome = stderr.read_to_end(&mut said);
        let _ = sender.send(outcome.map(|_| String::from_utf8_lossy(&said).into_owned()));
    });
    let said = receiver.recv_timeout(PATIENCE);
    if said.is_err() {
        // A suite that already went is no error here.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let said = said.map_err(|_| io::Error::other("the suite did not come to an end"))??;
    Ok((status.success(), said))
}

/// Reads `Passed: 3/4, 1 failed, 0 warnings`.
fn counted(said: &str) -> Option<Checks> {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("Passed: "))?;
    let (passed, rest) = line.split_once('/')?;
    let (counted, _) = rest.split_once(',')?;
    Some(Checks {
        passed: passed.parse().ok()?,
        counted: counted.parse().ok()?,
    })
}

/// The suite colours what it says even where nobody sees it.
fn without_colours(text: &str) -> String {
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
    fn the_count_of_checks_is_read_and_nothing_is_taken_for_one() {
        let said = "Test Results:\nPassed: 3/4, 1 failed, 0 warnings\n";
        let checks = Checks {
            passed: 3,
            counted: 4,
        };
        assert_eq!(counted(said), Some(checks));
        assert_eq!(counted("Client test error: no such scenario"), None);
    }

    #[test]
    fn colours_are_left_out() {
        let text = "\x1b[90mnow\x1b[0m [check] \x1b[31mFAILURE\x1b[0m it failed";
        assert_eq!(without_colours(text), "now [check] FAILURE it failed");
    }

    #[test]
    fn what_was_said_and_how_it_ended_are_told_apart() {
        let sh = |script: &str| complete(program("sh").args(["-c", script])).unwrap();
        assert_eq!(sh("echo no >&2; exit 1"), (false, "no\n".to_owned()));
        assert_eq!(sh("echo yes >&2"), (true, "yes\n".to_owned()));
    }
}
