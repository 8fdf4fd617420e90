//! The fuzz targets of `fuzz/`, built and run without further tools: `cargo xtask fuzz`.
//!
//! `cargo fuzz` would run them as well, but would have to be installed first. The flags are those
//! that it passes, without a sanitizer: the code has no `unsafe` to find anything in. What a run
//! finds goes below the target folder, and the committed corpus is only read.
//!
//! Invariant: a crash fails the chore, and its input is named in the output.

use std::path::PathBuf;
use std::process::Command;

use crate::step::{Failure, Steps, cargo, program, variable};

/// Every target, each a file in `fuzz/fuzz_targets/`.
const TARGETS: [&str; 5] = ["lines", "events", "envelope", "results", "config"];

/// How long each target runs in CI.
pub(crate) const CI_SECONDS: u32 = 20;

/// How long each target runs when nothing is said.
const SECONDS: u32 = 60;

/// No target needs more; what takes more is a finding.
const MEMORY_MIB: u32 = 1_024;

/// One input that takes longer is a finding.
const INPUT_SECONDS: u32 = 10;

/// The longest input that is made.
const INPUT_BYTES: u32 = 16 * 1_024;

/// What makes a build watchable for libFuzzer.
const FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Cdebug-assertions",
];

/// What to run, and for how long each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) targets: Vec<&'static str>,
    pub(crate) seconds: u32,
}

impl Order {
    pub(crate) fn all(seconds: u32) -> Self {
        Self {
            targets: TARGETS.to_vec(),
            seconds,
        }
    }

    /// Reads `[TARGET] [--seconds N]`.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        let (names, seconds) = match words {
            [names @ .., "--seconds", seconds] => (names, seconds.parse().ok()?),
            names => (names, SECONDS),
        };
        let targets = match names {
            [] => TARGETS.to_vec(),
            [name] => vec![TARGETS.into_iter().find(|target| target == name)?],
            _ => return None,
        };
        Some(Self { targets, seconds })
    }
}

/// Builds all targets and runs those that were asked for, one after the other.
pub(crate) fn run(steps: &mut Steps, order: &Order) -> Result<(), Failure> {
    let place = Place::find(steps)?;
    steps.run("fuzz build", &mut place.build())?;
    for target in &order.targets {
        let mut watched = place.watch(target, order.seconds)?;
        steps.run_quietly(target, &mut watched, |line| line.starts_with("stat::"))?;
    }
    Ok(())
}

/// Where the targets are built and what they find is kept.
struct Place {
    /// Beside everything else that is built, so that one cache holds it all; apart, because of the
    /// flags.
    folder: PathBuf,
    /// With the triple given, the flags are not for build scripts and macros.
    triple: String,
}

impl Place {
    fn find(steps: &Steps) -> Result<Self, Failure> {
        let shared = variable("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let output = program("rustc").arg("-vV").output();
        let output = output.map_err(|error| failed(&error))?;
        let version = String::from_utf8_lossy(&output.stdout);
        let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
        let triple = triple.ok_or_else(|| failed(&"rustc does not name its host"))?;
        Ok(Self {
            folder: steps.root().join(shared).join("fuzz"),
            triple: triple.to_owned(),
        })
    }

    fn build(&self) -> Command {
        let mut command = cargo(&["build", "--release", "--locked"]);
        command
            .args(["--manifest-path", "fuzz/Cargo.toml", "--target"])
            .arg(&self.triple)
            .env("CARGO_TARGET_DIR", &self.folder)
            .env("RUSTFLAGS", FLAGS.join(" "));
        command
    }

    /// New inputs go to the first folder; the others are only read.
    fn watch(&self, target: &str, seconds: u32) -> Result<Command, Failure> {
        let found = self.folder.join("found").join(target);
        let crashes = self.folder.join("crashes").join(target);
        for folder in [&found, &crashes] {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        let binary = self.folder.join(&self.triple).join("release").join(target);
        let mut command = program(binary);
        command
            .arg(found)
            .arg(format!("fuzz/corpus/{target}"))
            .arg(format!("-artifact_prefix={}/", crashes.display()))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={INPUT_BYTES}"))
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .args([
                "-dict=fuzz/words.dict",
                "-verbosity=0",
                "-print_final_stats=1",
            ]);
        Ok(command)
    }
}

fn failed(reason: &dyn std::fmt::Display) -> Failure {
    Failure::Step {
        step: "fuzz",
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_target_or_all_are_run_for_the_time_that_was_said() {
        let order = |targets: &[&'static str], seconds| {
            let targets = targets.to_vec();
            Some(Order { targets, seconds })
        };
        assert_eq!(Order::parse(&[]), order(&TARGETS, SECONDS));
        assert_eq!(Order::parse(&["--seconds", "5"]), order(&TARGETS, 5));
        let one = Order::parse(&["lines", "--seconds", "5"]);
        assert_eq!(one, order(&["lines"], 5));
        for wrong in [
            &["nothing"][..],
            &["lines", "config"],
            &["--seconds"],
            &["--seconds", "x"],
        ] {
            assert_eq!(Order::parse(wrong), None);
        }
    }

    #[test]
    fn every_target_has_a_file_and_a_corpus() {
        let fuzz = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz");
        for target in TARGETS {
            let file = format!("{fuzz}/fuzz_targets/{target}.rs");
            let corpus = format!("{fuzz}/corpus/{target}");
            assert!(std::fs::exists(file).unwrap());
            assert!(std::fs::read_dir(corpus).unwrap().count() > 0);
        }
    }
}
