//! The heavy checks in full: `cargo xtask whole NAME`.
//!
//! Each is an ordinary test that repeats itself: a share in CI, the whole here. Tests are found by
//! their names, which contain `whole_` and the name of the check. Invariant: a check without a test
//! is a failure and not a success.

use crate::fuzz;
use crate::step::{Failure, Steps, WORKSPACE, answers_version, cargo};
use crate::test;

/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 300;

/// One heavy check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Check {
    name: &'static str,
    /// The crate whose tests it is among.
    package: &'static str,
    /// How often it repeats itself, as the promise has it.
    rounds: u32,
}

const CHECKS: [Check; 10] = [
    Check::new("seeds", "switchboard", 2_000),
    Check::new("remotes", "switchboard", 2_000),
    Check::new("trees", "switchboard", 500),
    Check::new("kills", "switchboard-cli", 100),
    Check::new("connects", "switchboard", 10_000),
    Check::new("floods", "switchboard", 1_000_000),
    Check::new("rules", "switchboard", 100_000),
    Check::new("names", "switchboard", 50_000),
    Check::new("reloads", "switchboard", 2_000),
    Check::new("watches", "switchboard", 900),
];

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    One(&'static Check),
    Fuzz,
    All,
}

impl Choice {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "fuzz" => Some(Self::Fuzz),
            "all" => Some(Self::All),
            _ => CHECKS
                .iter()
                .find(|check| check.name == name)
                .map(Self::One),
        }
    }
}

pub(crate) fn run(steps: &mut Steps, choice: &Choice) -> Result<(), Failure> {
    let checks = match choice {
        Choice::One(check) => std::slice::from_ref(*check),
        Choice::Fuzz => &[],
        Choice::All => &CHECKS,
    };
    if !checks.is_empty() {
        prepare(steps)?;
    }
    for check in checks {
        check.run(steps)?;
    }
    if matches!(choice, Choice::Fuzz | Choice::All) {
        fuzz::run(steps, &fuzz::Order::all(FUZZ_SECONDS))?;
    }
    Ok(())
}

fn prepare(steps: &mut Steps) -> Result<(), Failure> {
    if !answers_version(&mut cargo(&["nextest"])) {
        return Err(Failure::Step {
            step: "whole",
            reason: "it needs cargo-nextest: cargo install --locked cargo-nextest".to_owned(),
        });
    }
    test::build(steps)
}

impl Check {
    const fn new(name: &'static str, package: &'static str, rounds: u32) -> Self {
        Self {
            name,
            package,
            rounds,
        }
    }

    fn run(&self, steps: &mut Steps) -> Result<(), Failure> {
        let mut command = cargo(&["nextest", "run", "--all-targets"]);
        command
            .args(WORKSPACE)
            .args(["--profile", "whole", "--no-tests", "fail", "-E"])
            .arg(self.filter())
            .env("SWITCHBOARD_ROUNDS", self.rounds.to_string());
        steps.run(self.name, &mut command)
    }

    fn filter(&self) -> String {
        format!("package(={}) & test(/whole_{}/)", self.package, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_runs_the_tests_that_bear_its_name_and_no_others() {
        let Some(Choice::One(check)) = Choice::named("kills") else {
            panic!("there is such a check");
        };
        let expected = "package(=switchboard-cli) & test(/whole_kills/)";
        assert_eq!(check.filter(), expected);
    }

    #[test]
    fn every_name_is_one_choice() {
        for check in &CHECKS {
            assert_eq!(Choice::named(check.name), Some(Choice::One(check)));
        }
        assert_eq!(Choice::named("all"), Some(Choice::All));
        assert_eq!(Choice::named("everything"), None);
    }
}
