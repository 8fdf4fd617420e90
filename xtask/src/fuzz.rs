//! Builds and runs the fuzz targets of `fuzz/`: `cargo xtask fuzz`.
//!
//! `cargo fuzz` can run the targets too but is not required. The compiler flags are those of `cargo
//! fuzz`, without a sanitizer because the fuzzed code has no `unsafe`. New inputs are written below
//! the target directory; the committed corpus is only read.
//!
//! Invariant: a crash fails the task, and the output names the input that caused it.

use std::path::PathBuf;
use std::process::Command;

use crate::steps::{Failure, Steps, cargo, program, variable};

/// All targets; each is a file in `fuzz/fuzz_targets/`.
const TARGETS: [&str; 5] = ["lines", "events", "envelope", "results", "config"];

/// Run time of each target in CI.
pub(crate) const CI_SECONDS: u32 = 20;

/// Run time of each target by default.
const DEFAULT_SECONDS: u32 = 60;

/// libFuzzer reports an input that needs more memory.
const MEMORY_MIB: u32 = 1_024;

/// libFuzzer reports an input that takes longer.
const INPUT_SECONDS: u32 = 10;

/// Maximum length of a generated input.
const INPUT_BYTES: u32 = 16 * 1_024;

/// Compiler flags for the coverage instrumentation that libFuzzer needs.
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

/// The targets to run and the run time of each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FuzzPlan {
    pub(crate) targets: Vec<&'static str>,
    pub(crate) seconds: u32,
}

impl FuzzPlan {
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
            names => (names, DEFAULT_SECONDS),
        };
        let targets = match names {
            [] => TARGETS.to_vec(),
            [name] => vec![TARGETS.into_iter().find(|target| target == name)?],
            _ => return None,
        };
        Some(Self { targets, seconds })
    }
}

/// Builds all targets and runs the planned ones one after the other.
pub(crate) fn run(steps: &mut Steps, plan: &FuzzPlan) -> Result<(), Failure> {
    let dirs = FuzzDirs::find(steps)?;
    steps.run("fuzz build", &mut dirs.build_command())?;
    for target in &plan.targets {
        let mut command = dirs.fuzz_command(target, plan.seconds)?;
        steps.run_quietly(target, &mut command, |line| line.starts_with("stat::"))?;
    }
    Ok(())
}

/// Where this task builds the fuzz targets and stores new and crashing inputs, and the target
/// triple that it builds for.
struct FuzzDirs {
    /// Inside the target directory, so that one CI cache covers it. Separate from the other builds
    /// because the compiler flags differ.
    folder: PathBuf,
    /// Passed as `--target`, so that RUSTFLAGS do not apply to build scripts and proc macros.
    triple: String,
}

impl FuzzDirs {
    fn find(steps: &Steps) -> Result<Self, Failure> {
        let shared = variable("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let output = program("rustc").arg("-vV").output();
        let output = output.map_err(|error| failed(&error))?;
        let version = String::from_utf8_lossy(&output.stdout);
        let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
        let triple = triple.ok_or_else(|| failed(&"`rustc -vV` printed no host triple"))?;
        Ok(Self {
            folder: steps.root().join(shared).join("fuzz"),
            triple: triple.to_owned(),
        })
    }

    fn build_command(&self) -> Command {
        let mut command = cargo(&["build", "--release", "--locked"]);
        command
            .args(["--manifest-path", "fuzz/Cargo.toml", "--target"])
            .arg(&self.triple)
            .env("CARGO_TARGET_DIR", &self.folder)
            .env("RUSTFLAGS", FLAGS.join(" "));
        command
    }

    /// libFuzzer writes new inputs to the first directory and only reads the second.
    fn fuzz_command(&self, target: &str, seconds: u32) -> Result<Command, Failure> {
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
    fn plan_is_parsed_from_words() {
        let plan = |targets: &[&'static str], seconds| {
            let targets = targets.to_vec();
            Some(FuzzPlan { targets, seconds })
        };
        assert_eq!(FuzzPlan::parse(&[]), plan(&TARGETS, DEFAULT_SECONDS));
        assert_eq!(FuzzPlan::parse(&["--seconds", "5"]), plan(&TARGETS, 5));
        let one = FuzzPlan::parse(&["lines", "--seconds", "5"]);
        assert_eq!(one, plan(&["lines"], 5));
        for wrong in [
            &["nothing"][..],
            &["lines", "config"],
            &["--seconds"],
            &["--seconds", "x"],
        ] {
            assert_eq!(FuzzPlan::parse(wrong), None);
        }
    }

    #[test]
    fn every_target_has_source_and_corpus() {
        let fuzz = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz");
        for target in TARGETS {
            let file = format!("{fuzz}/fuzz_targets/{target}.rs");
            let corpus = format!("{fuzz}/corpus/{target}");
            assert!(std::fs::exists(file).unwrap());
            assert!(std::fs::read_dir(corpus).unwrap().count() > 0);
        }
    }
}
