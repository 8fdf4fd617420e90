//! The project's chores, as `cargo xtask COMMAND`.
//!
//! This file reads the command line and picks the chore; each chore is a module of its own. Nothing
//! here is shipped, and nothing here is needed to build the crates.

mod check;
mod conformance;
mod docs;
mod fixtures;
mod fuzz;
mod picture;
mod step;
mod test;
mod whole;

use std::process::ExitCode;

use fixtures::AfterInstall;
use fuzz::Order;
use step::{Failure, Steps};
use test::Profile;
use whole::Choice;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check                 formatting, lints, documentation and its made parts, dependency rules
  test [-- ARG…]        fixtures, then every test; ARGs go to the test runner and leave out the doc tests
                        and the conformance suite
  ci                    check, then fuzz a little, then test, with the time of each step
  whole NAME            a heavy check in full, of which CI runs a share:
                        seeds, remotes, trees, kills, connects, floods, rules, names,
                        reloads, watches, fuzz, or all
  fuzz [TARGET] [--seconds N]
                        feed made-up bytes to what reads them; a minute each unless said otherwise
  conformance [--requirements VERSION]
                        the official suite, with what two versions of the protocol require
  fixtures [--verify]   install the reference servers the tests talk to; --verify starts each one
  docs                  write docs/config.md's reference and the JSON Schemas, from the table of keys
  picture               draw what `switchboard demo` prints, for the README

environment: SWITCHBOARD_FIXTURES  where the reference servers live
             CI                    when set, missing fixtures are a failure and not a warning";

enum Chore {
    Check,
    Test { runner_args: Vec<String> },
    Ci,
    Whole(Choice),
    Fuzz(Order),
    Conformance(conformance::Order),
    Fixtures(AfterInstall),
    Docs,
    Picture,
    Help,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args).and_then(perform) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            failure.exit_code()
        }
    }
}

fn parse(args: &[String]) -> Result<Chore, Failure> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check"] => Ok(Chore::Check),
        ["test"] => Ok(Chore::Test {
            runner_args: Vec::new(),
        }),
        ["test", "--", rest @ ..] => Ok(Chore::Test {
            runner_args: owned(rest),
        }),
        ["ci"] => Ok(Chore::Ci),
        ["whole", name] => Choice::named(name)
            .map(Chore::Whole)
            .ok_or_else(|| not_understood(&words)),
        ["fuzz", rest @ ..] => Order::parse(rest)
            .map(Chore::Fuzz)
            .ok_or_else(|| not_understood(&words)),
        ["conformance", rest @ ..] => conformance::Order::parse(rest)
            .map(Chore::Conformance)
            .ok_or_else(|| not_understood(&words)),
        ["fixtures"] => Ok(Chore::Fixtures(AfterInstall::Done)),
        ["fixtures", "--verify"] => Ok(Chore::Fixtures(AfterInstall::Verify)),
        ["docs"] => Ok(Chore::Docs),
        ["picture"] => Ok(Chore::Picture),
        ["help" | "--help" | "-h"] => Ok(Chore::Help),
        [] => Err(Failure::Usage(USAGE.to_owned())),
        other => Err(not_understood(other)),
    }
}

fn not_understood(words: &[&str]) -> Failure {
    Failure::Usage(format!("not understood: {}\n\n{USAGE}", words.join(" ")))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn perform(chore: Chore) -> Result<(), Failure> {
    let mut steps = Steps::in_workspace()?;
    match chore {
        Chore::Check => check::run(&mut steps),
        Chore::Test { runner_args } => test::run(&mut steps, Profile::Default, &runner_args),
        Chore::Ci => {
            let outcome = check::run(&mut steps)
                .and_then(|()| fuzz::run(&mut steps, &Order::all(fuzz::CI_SECONDS)))
                .and_then(|()| test::run(&mut steps, Profile::Ci, &[]));
            steps.summarize("ci", &outcome);
            outcome
        }
        Chore::Whole(choice) => {
            let outcome = whole::run(&mut steps, &choice);
            steps.summarize("whole", &outcome);
            outcome
        }
        Chore::Fuzz(order) => fuzz::run(&mut steps, &order),
        Chore::Conformance(order) => conformance::run(&mut steps, &order),
        Chore::Fixtures(after) => fixtures::run(&mut steps, after),
        Chore::Docs => docs::write(&mut steps),
        Chore::Picture => picture::run(&mut steps),
        Chore::Help => {
            println!("{USAGE}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Chore, Failure> {
        parse(&owned(words))
    }

    #[test]
    fn what_follows_the_dashes_goes_to_the_runner_untouched() {
        let chore = parse_words(&["test", "--", "-p", "xtask", "--", "--nocapture"]);

        let Ok(Chore::Test { runner_args }) = chore else {
            panic!("expected the test chore");
        };
        assert_eq!(runner_args, ["-p", "xtask", "--", "--nocapture"]);
    }

    #[test]
    fn an_unknown_option_is_refused_and_not_ignored() {
        for words in [
            &["fixtures", "--verfiy"][..],
            &["ci", "--fast"],
            &["whole", "seds"],
            &["conformance", "--requirements", "2025"],
            &[],
        ] {
            assert!(matches!(parse_words(words), Err(Failure::Usage(_))));
        }
    }
}
