//! `cargo xtask conformance`: the official suite against the engine's real client, through
//! `examples/conformance-client.rs`.
//!
//! What a version of the protocol requires is frozen in the suite's own `requirements/`; what does not
//! pass yet stands in `conformance/baseline.yml`. Invariant: that file can only shrink. A scenario in
//! it that passes, or that nobody requires, fails the run just as one that fails without being in it.

mod lists;
mod runner;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::fixtures;
use crate::step::{Failure, Steps};
use crate::test;
use lists::List;
use runner::{Report, Runner};

const STEP: &str = "conformance";

const BASELINE: &str = "conformance/baseline.yml";

/// Added to the suite after the lists were frozen, and kept passing all the same.
const ALSO: &str = "json-schema-2020-12-preservation";

/// Scenarios that measure time, which others must not take from them.
const ALONE: [&str; 1] = ["sse-retry"];

/// A version of the protocol whose requirements are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(&'static str);

const VERSIONS: [Version; 2] = [Version("2025-11-25"), Version("2026-07-28")];

/// Which versions to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Order(Vec<Version>);

impl Order {
    pub(crate) fn all() -> Self {
        Self(VERSIONS.to_vec())
    }

    /// `None` if the words are not understood.
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

/// `cargo xtask conformance`, from nothing.
pub(crate) fn run(steps: &mut Steps, order: &Order) -> Result<(), Failure> {
    let fixtures = fixtures::install(steps)?;
    test::build(steps)?;
    run_built(steps, order, &fixtures)
}

/// The same where the fixtures are in place and the client is built.
pub(crate) fn run_built(steps: &mut Steps, order: &Order, fixtures: &Path) -> Result<(), Failure> {
    let baseline = steps.root().join(BASELINE);
    let versions: Vec<&str> = order.0.iter().map(|version| version.0).collect();
    steps.perform(STEP, &versions.join(", "), || {
        let Some(suite) = fixtures::conformance_suite(fixtures) else {
            println!("SKIPPED: the suite is not installed (see `fixtures` above)");
            return Ok(());
        };
        let runner = Runner::new(fixtures::node(fixtures), &suite).map_err(failure)?;
        let expected = read(&baseline)?;
        let mut complaints = Vec::new();
        for version in &order.0 {
            let requirements = suite.join(format!("requirements/{}.yaml", version.0));
            let required = List::named("client", &read(&requirements)?).map_err(failure)?;
            let known = List::named(version.0, &expected).map_err(failure)?;
            complaints.extend(play(&runner, *version, &required, &known));
        }
        if complaints.is_empty() {
            Ok(())
        } else {
            Err(failure(complaints.join("\n")))
        }
    })
}

/// Runs what a version requires, prints what came of it, and answers with what is not as it should be.
fn play(runner: &Runner, version: Version, required: &List, known: &List) -> Vec<String> {
    let begun = Instant::now();
    let scenarios = required.names().chain([ALSO]);
    let (alone, together): (Vec<&str>, Vec<&str>) =
        scenarios.partition(|scenario| ALONE.contains(scenario));
    let mut reports = runner.in_turn(version.0, &alone);
    reports.extend(runner.side_by_side(version.0, &together));
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
    print(version, &reports, &expected, begun);
    complaints(version, &ran, &failed, &expected)
}

fn print(version: Version, reports: &[Report], expected: &BTreeSet<&str>, begun: Instant) {
    let known = |report: &&Report| !report.passed && expected.contains(report.scenario.as_str());
    println!("\n{}", version.0);
    for report in reports.iter().filter(|report| !known(report)) {
        let verdict = if report.passed { "passed" } else { "FAILED" };
        println!(
            "  {:<40} {:>3} of {:>3} checks  {verdict}",
            report.scenario, report.checks.passed, report.checks.counted
        );
        if !report.passed {
            println!("{}", report.explanation());
        }
    }
    let known = reports.iter().filter(known).count();
    let passed = reports.iter().filter(|report| report.passed).count();
    println!(
        "  {passed} of {} scenarios passed, {known} are known to fail, in {:.0} s",
        reports.len(),
        begun.elapsed().as_secs_f64()
    );
}

/// The difference between what failed and what was expected to.
fn complaints(
    version: Version,
    ran: &BTreeSet<&str>,
    failed: &BTreeSet<&str>,
    expected: &BTreeSet<&str>,
) -> Vec<String> {
    let version = version.0;
    let new = failed.difference(expected);
    let new = new.map(|name| format!("{version} {name}: failed"));
    let stale = expected.difference(failed).map(|name| {
        let what = if ran.contains(name) {
            "passes now"
        } else {
            "is not required"
        };
        format!("{version} {name}: {what}; remove it from {BASELINE}")
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
    fn a_version_is_one_of_the_frozen_ones() {
        assert_eq!(Order::parse(&[]), Some(Order::all()));
        let one = Order::parse(&["--requirements", "2025-11-25"]);
        assert_eq!(one, Some(Order(vec![VERSIONS[0]])));
        assert_eq!(Order::parse(&["--requirements", "2024-11-05"]), None);
        assert_eq!(Order::parse(&["2025-11-25"]), None);
    }

    #[test]
    fn the_baseline_can_only_shrink() {
        let ran = BTreeSet::from(["a", "b", "c"]);
        let complain = |failed: &[&str], expected: &[&str]| {
            let [failed, expected] =
                [failed, expected].map(|names| names.iter().copied().collect());
            complaints(VERSIONS[0], &ran, &failed, &expected)
        };

        assert_eq!(complain(&["b"], &["b"]), Vec::<String>::new());
        assert_eq!(complain(&["b"], &[]), ["2025-11-25 b: failed"]);
        assert_eq!(
            complain(&[], &["b", "gone"]),
            [
                "2025-11-25 b: passes now; remove it from conformance/baseline.yml",
                "2025-11-25 gone: is not required; remove it from conformance/baseline.yml",
            ]
        );
    }
}
