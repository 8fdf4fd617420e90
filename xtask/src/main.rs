//! Developer tasks of the project, run as `cargo xtask COMMAND`.
//!
//! This file parses the command line and selects the task; each task is a module. Nothing here is
//! shipped or needed to build the crates.

mod build_all_targets;

mod conformance;
mod demo_svg;
mod dist;
mod fixtures;
mod fuzz;
mod generated_docs;
mod invariants;
mod module_cycles;
mod static_checks;
mod steps;
mod stress;
mod test;

use std::process::ExitCode;

use conformance::VersionSelection;
use dist::Target;
use fixtures::AfterInstall;
use fuzz::FuzzPlan;
use steps::{Failure, Steps};
use stress::Selection;
use test::Profile;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check                 check formatting, lints, module cycles, documentation, generated files,
                        tests of the invariants and dependency rules
  test [-- ARG…]        install fixtures, then run every test; ARGs go to the test runner and skip
                        the doc tests and the conformance suite
  ci                    check, fuzz (20 s per target), test; print the time of each step
  cycles                check module cycles only
  stress NAME           run a stress test at full length (CI runs a part of it):
                          seeds     calls over stdio under random faults
                          remotes   calls over HTTP under random faults
                          trees     process trees after their host exits
                          kills     process trees after their host is killed
                          connects  leaks across connects and disconnects
                          floods    memory and time limits under message floods
                          rules     permission rules against a reference implementation
                          names     collisions of tool names on the wire
                          reloads   config changes while servers run
                          watches   lost and repeated watch events
                          fuzz      all fuzz targets, 5 min each
                          all       all of the above, one after the other
  fuzz [TARGET] [--seconds N]
                        run the fuzz targets, 60 s each by default
  conformance [--requirements VERSION]
                        run the official MCP conformance suite
  fixtures [--verify]   install the reference servers used by tests; --verify starts each one
  docs                  write the key tables of docs/config.md and the JSON Schemas
  dist [--target TRIPLE]
                        build the release archive: binary, manual pages, completions
  demo-svg              write docs/demo.svg from the output of `switchboard demo`

environment: SWITCHBOARD_FIXTURES  directory of the reference servers
             CI                    if set, missing fixtures are an error instead of a warning";

enum Task {
    Check,
    Cycles,
    Test { runner_args: Vec<String> },
    Ci,
    Stress(Selection),
    Fuzz(FuzzPlan),
    Conformance(VersionSelection),
    Fixtures(AfterInstall),
    Docs,
    Dist(Target),
    DemoSvg,
    Help,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args).and_then(run_task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            failure.exit_code()
        }
    }
}

fn parse(args: &[String]) -> Result<Task, Failure> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check"] => Ok(Task::Check),
        ["cycles"] => Ok(Task::Cycles),
        ["test"] => Ok(Task::Test {
            runner_args: Vec::new(),
        }),
        ["test", "--", rest @ ..] => Ok(Task::Test {
            runner_args: owned(rest),
        }),
        ["ci"] => Ok(Task::Ci),
        ["stress", name] => Selection::named(name)
            .map(Task::Stress)
            .ok_or_else(|| usage_error(&words)),
        ["fuzz", rest @ ..] => FuzzPlan::parse(rest)
            .map(Task::Fuzz)
            .ok_or_else(|| usage_error(&words)),
        ["conformance", rest @ ..] => VersionSelection::parse(rest)
            .map(Task::Conformance)
            .ok_or_else(|| usage_error(&words)),
        ["fixtures"] => Ok(Task::Fixtures(AfterInstall::Done)),
        ["fixtures", "--verify"] => Ok(Task::Fixtures(AfterInstall::Verify)),
        ["docs"] => Ok(Task::Docs),
        ["dist", rest @ ..] => Target::parse(rest)
            .map(Task::Dist)
            .ok_or_else(|| usage_error(&words)),
        ["demo-svg"] => Ok(Task::DemoSvg),
        ["help" | "--help" | "-h"] => Ok(Task::Help),
        [] => Err(Failure::Usage(USAGE.to_owned())),
        other => Err(usage_error(other)),
    }
}

fn usage_error(words: &[&str]) -> Failure {
    Failure::Usage(format!("unknown command: {}\n\n{USAGE}", words.join(" ")))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn run_task(task: Task) -> Result<(), Failure> {
    let mut steps = Steps::in_workspace()?;
    match task {
        Task::Check => static_checks::run(&mut steps),
        Task::Cycles => module_cycles::check(&mut steps),
        Task::Test { runner_args } => test::run(&mut steps, Profile::Default, &runner_args),
        Task::Ci => {
            let outcome = static_checks::run(&mut steps)
                .and_then(|()| fuzz::run(&mut steps, &FuzzPlan::all(fuzz::CI_SECONDS)))
                .and_then(|()| test::run(&mut steps, Profile::Ci, &[]));
            steps.summarize("ci", &outcome);
            outcome
        }
        Task::Stress(selection) => {
            let outcome = stress::run(&mut steps, &selection);
            steps.summarize("stress", &outcome);
            outcome
        }
        Task::Fuzz(plan) => fuzz::run(&mut steps, &plan),
        Task::Conformance(selection) => conformance::run(&mut steps, &selection),
        Task::Fixtures(after) => fixtures::run(&mut steps, after),
        Task::Docs => generated_docs::write(&mut steps),
        Task::Dist(target) => dist::run(&mut steps, target),
        Task::DemoSvg => demo_svg::run(&mut steps),
        Task::Help => {
            println!("{USAGE}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Task, Failure> {
        parse(&owned(words))
    }

    #[test]
    fn test_args_reach_runner_unchanged() {
        let task = parse_words(&["test", "--", "-p", "xtask", "--", "--nocapture"]);

        let Ok(Task::Test { runner_args }) = task else {
            panic!("expected the test task");
        };
        assert_eq!(runner_args, ["-p", "xtask", "--", "--nocapture"]);
    }

    #[test]
    fn unknown_options_are_rejected() {
        for words in [
            &["fixtures", "--verfiy"][..],
            &["ci", "--fast"],
            &["stress", "seds"],
            &["conformance", "--requirements", "2025"],
            &[],
        ] {
            assert!(matches!(parse_words(words), Err(Failure::Usage(_))));
        }
    }
}
