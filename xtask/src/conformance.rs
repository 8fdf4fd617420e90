//! Runs the official MCP conformance suite against
//! `crates/switchboard/examples/conformance-client.rs`: `cargo xtask conformance`.
//!
//! The suite's `requirements/` lists the required scenarios of each protocol version;
//! `conformance/baseline.yml` lists the scenarios that are expected to fail. Invariant: the
//! baseline can only shrink. The run fails on an unexpected failure, and also on a baseline entry
//! that passes or is not required.

mod runner;
mod scenario_list;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::steps::{Failure, Steps};
use crate::{build_all_targets, fixtures};
use runner::{Report, Runner};
use scenario_list::ScenarioList;

const STEP: &str = "conformance";

const BASELINE: &str = "conformance/baseline.yml";

/// A scenario that the frozen requirement lists do not contain. It must pass as well.
const EXTRA_SCENARIO: &str = "json-schema-2020-12-preservation";

/// Scenarios that measure time and therefore run without others in parallel.
const SERIAL_SCENARIOS: [&str; 1] = ["sse-retry"];

/// A protocol version with a frozen requirement list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(&'static str);

const VERSIONS: [Version; 2] = [Version("2025-11-25"), Version("2026-07-28")];

/// The versions to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VersionSelection(Vec<Version>);

impl VersionSelection {
    pub(crate) fn all() -> Self {
        Self(VERSIONS.to_vec())
    }

    /// Parses `[--requirements VERSION]`; `None` if the words are invalid.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        match words {
            [] => Some(Self::all()),
            ["--requirements", wanted] => VERSIONS
                .into_iter()
                .find(|version| version.0 == *wanted)
                .map(|version| Self(vec![version])),
            _ => None,
        }
    }
}

/// Installs the suite, builds the client and runs the suite.
pub(crate) fn run(steps: &mut Steps, selection: &VersionSelection) -> Result<(), Failure> {
    let fixtures = fixtures::install(steps)?;
    build_all_targets::run(steps)?;
    run_built(steps, selection, &fixtures)
}

/// Runs the suite; expects that the fixtures are installed and the client is built.
pub(crate) fn run_built(
    steps: &mut Steps,
    selection: &VersionSelection,
    fixtures: &Path,
) -> Result<(), Failure> {
    let baseline = steps.root().join(BASELINE);
    let versions: Vec<&str> = selection.0.iter().map(|version| version.0).collect();
    steps.run_work(STEP, &versions.join(", "), || {
        let Some(suite) = fixtures::conformance_suite(fixtures) else {
            println!("SKIPPED: the conformance suite is not installed (see `fixtures` above)");
            return Ok(());
        };
        let runner = Runner::new(fixtures::node(fixtures), &suite).map_err(failure)?;
        let expected = read(&baseline)?;
        let mut unexpected = Vec::new();
        for version in &selection.0 {
            let requirements = suite.join(format!("requirements/{}.yaml", version.0));
            let required = ScenarioList::parse("client", &read(&requirements)?).map_err(failure)?;
            let known = ScenarioList::parse(version.0, &expected).map_err(failure)?;
            unexpected.extend(run_version(&runner, *version, &required, &known));
        }
        if unexpected.is_empty() {
            Ok(())
        } else {
            Err(failure(unexpected.join("\n")))
        }
    })
}

/// Runs the required scenarios of a version, prints the results and returns the unexpected ones.
fn run_version(
    runner: &Runner,
    version: Version,
    required: &ScenarioList,
    known: &ScenarioList,
) -> Vec<String> {
    let started = Instant::now();
    let scenarios = required.names().chain([EXTRA_SCENARIO]);
    let (serial, parallel): (Vec<&str>, Vec<&str>) =
        scenarios.partition(|scenario| SERIAL_SCENARIOS.contains(scenario));
    let mut reports = runner.run_serial(version.0, &serial);
    reports.extend(runner.run_parallel(version.0, &parallel));
    reports.sort_by(|one, other| one.scenario.cmp(&other.scenario));

    let failed: BTreeSet<&str> = reports
        .iter()
        .filter(|report| !report.passed)
        .map(|report| report.scenario.as_str())
        .collect();
    let expected: BTreeSet<&str> = known.names().collect();
    let ran: BTreeSet<&str> = reports
        .iter()
        .map(|report| report.scenario.as_str())
        .collect();
    print_reports(version, &reports, &expected, started);
    unexpected_results(version, &ran, &failed, &expected)
}

fn print_reports(
    version: Version,
    reports: &[Report],
    expected: &BTreeSet<&str>,
    started: Instant,
) {
    let known = |report: &&Report| !report.passed && expected.contains(report.scenario.as_str());
    println!("\n{}", version.0);
    for report in reports.iter().filter(|report| !known(report)) {
        let verdict = if report.passed { "passed" } else { "FAILED" };
        println!(
            "  {:<40} {:>3} of {:>3} checks  {verdict}",
            report.scenario, report.checks.passed, report.checks.total
        );
        if !report.passed {
            println!("{}", report.explanation());
        }
    }
    let known = reports.iter().filter(known).count();
    let passed = reports.iter().filter(|report| report.passed).count();
    println!(
        "  {passed} of {} scenarios passed, {known} expected failures, {:.0} s",
        reports.len(),
        started.elapsed().as_secs_f64()
    );
}

/// Compares the failed scenarios with the baseline.
fn unexpected_results(
    version: Version,
    ran: &BTreeSet<&str>,
    failed: &BTreeSet<&str>,
    expected: &BTreeSet<&str>,
) -> Vec<String> {
    let version = version.0;
    let new = failed.difference(expected);
    let new = new.map(|name| format!("{version} {name}: failed"));
    let stale = expected.difference(failed).map(|name| {
        let problem = if ran.contains(name) {
            "passes"
        } else {
            "is not required"
        };
        format!("{version} {name}: {problem}; remove it from {BASELINE}")
    });
    new.chain(stale).collect()
}

fn read(file: &PathBuf) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| failure(format!("{}: {error}", file.display())))
}

fn failure(reason: String) -> Failure {
    Failure::Step { step: STEP, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frozen_versions_are_accepted() {
        assert_eq!(VersionSelection::parse(&[]), Some(VersionSelection::all()));
        let one = VersionSelection::parse(&["--requirements", "2025-11-25"]);
        assert_eq!(one, Some(VersionSelection(vec![VERSIONS[0]])));
        assert_eq!(
            VersionSelection::parse(&["--requirements", "2024-11-05"]),
            None
        );
        assert_eq!(VersionSelection::parse(&["2025-11-25"]), None);
    }

    #[test]
    fn baseline_can_only_shrink() {
        let ran = BTreeSet::from(["a", "b", "c"]);
        let compare = |failed: &[&str], expected: &[&str]| {
            let [failed, expected] =
                [failed, expected].map(|names| names.iter().copied().collect());
            unexpected_results(VERSIONS[0], &ran, &failed, &expected)
        };

        assert_eq!(compare(&["b"], &["b"]), Vec::<String>::new());
        assert_eq!(compare(&["b"], &[]), ["2025-11-25 b: failed"]);
        assert_eq!(
            compare(&[], &["b", "gone"]),
            [
                "2025-11-25 b: passes; remove it from conformance/baseline.yml",
                "2025-11-25 gone: is not required; remove it from conformance/baseline.yml",
            ]
        );
    }
}
