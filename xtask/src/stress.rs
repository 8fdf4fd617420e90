//! Stress tests at full length: `cargo xtask stress NAME`.
//!
//! A stress test is an ordinary test that repeats itself: a few times in CI, at full length here.
//! The stress test NAME consists of the test functions whose names start with `stress_NAME_`.
//! Invariant: a stress test whose filter matches no test fails.

use crate::steps::{Failure, Steps, WORKSPACE, cargo, is_installed};
use crate::{build_all_targets, fuzz};

/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 300;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StressTest {
    name: &'static str,
    /// The crate that contains the tests.
    package: &'static str,
    /// Repetitions at full length.
    repetitions: u32,
}

const STRESS_TESTS: [StressTest; 10] = [
    StressTest::new("seeds", "switchboard", 2_000),
    StressTest::new("remotes", "switchboard", 2_000),
    StressTest::new("trees", "switchboard", 500),
    StressTest::new("kills", "switchboard-cli", 100),
    StressTest::new("connects", "switchboard", 10_000),
    StressTest::new("floods", "switchboard", 1_000_000),
    StressTest::new("rules", "switchboard", 100_000),
    StressTest::new("names", "switchboard-wire", 50_000),
    StressTest::new("reloads", "switchboard", 2_000),
    StressTest::new("watches", "switchboard", 900),
];

/// The stress tests to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    One(&'static StressTest),
    Fuzz,
    All,
}

impl Selection {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "fuzz" => Some(Self::Fuzz),
            "all" => Some(Self::All),
            _ => STRESS_TESTS
                .iter()
                .find(|test| test.name == name)
                .map(Self::One),
        }
    }
}

pub(crate) fn run(steps: &mut Steps, selection: &Selection) -> Result<(), Failure> {
    let tests = match selection {
        Selection::One(test) => std::slice::from_ref(*test),
        Selection::Fuzz => &[],
        Selection::All => &STRESS_TESTS,
    };
    if !tests.is_empty() {
        prepare(steps)?;
    }
    for test in tests {
        test.run(steps)?;
    }
    if matches!(selection, Selection::Fuzz | Selection::All) {
        fuzz::run(steps, &fuzz::FuzzPlan::all(FUZZ_SECONDS))?;
    }
    Ok(())
}

fn prepare(steps: &mut Steps) -> Result<(), Failure> {
    if !is_installed(&mut cargo(&["nextest"])) {
        return Err(Failure::Step {
            step: "stress",
            reason: "cargo-nextest is not installed; install it with:\n  \
                     cargo install --locked cargo-nextest"
                .to_owned(),
        });
    }
    build_all_targets::run(steps)
}

impl StressTest {
    const fn new(name: &'static str, package: &'static str, repetitions: u32) -> Self {
        Self {
            name,
            package,
            repetitions,
        }
    }

    fn run(&self, steps: &mut Steps) -> Result<(), Failure> {
        let mut command = cargo(&["nextest", "run", "--all-targets"]);
        command
            .args(WORKSPACE)
            .args(["--profile", "stress", "--no-tests", "fail", "-E"])
            .arg(self.filter())
            .env("SWITCHBOARD_REPEAT", self.repetitions.to_string());
        steps.run(self.name, &mut command)
    }

    fn filter(&self) -> String {
        format!("package(={}) & test(/stress_{}_/)", self.package, self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn filter_selects_package_and_name() {
        let Some(Selection::One(test)) = Selection::named("kills") else {
            panic!("no stress test is called `kills`");
        };
        let expected = "package(=switchboard-cli) & test(/stress_kills_/)";
        assert_eq!(test.filter(), expected);
    }

    #[test]
    fn every_stress_test_has_a_test_function() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        for test in &STRESS_TESTS {
            let function = format!("fn stress_{}_", test.name);
            let is_found = contains_text(&crates.join(test.package), &function);
            assert!(is_found, "no `{function}…` in {}", test.package);
        }
    }

    /// Whether a Rust file below this directory contains the text.
    fn contains_text(directory: &Path, text: &str) -> bool {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().path()).any(|path| {
            if path.is_dir() {
                return contains_text(&path, text);
            }
            path.extension().is_some_and(|extension| extension == "rs")
                && std::fs::read_to_string(&path).unwrap().contains(text)
        })
    }

    #[test]
    fn every_name_selects_one_test() {
        for test in &STRESS_TESTS {
            assert_eq!(Selection::named(test.name), Some(Selection::One(test)));
        }
        assert_eq!(Selection::named("all"), Some(Selection::All));
        assert_eq!(Selection::named("everything"), None);
    }
}
