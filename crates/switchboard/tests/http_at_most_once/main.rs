//! At most once over HTTP, shown by seeds: faults before, in and after every part of an exchange.
//!
//! Real sockets on loopback and real time, so a seed that failed need not fail again; its plan is the
//! same. `SWITCHBOARD_SEED=n` runs the one seed n and prints how its calls ended.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod assertions;
#[path = "../common/mod.rs"]
mod common;
mod fault_plan;
mod seed_run;

use std::panic::AssertUnwindSafe;

use assertions::{Fate, Tally};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use switchboard_testkit::repetitions;

/// Among so many calls there is every fate that a call can have, whatever the timing.
const ENOUGH_CALLS: usize = 3_000;
/// How many seeds run at a time: they wait more than they work.
const AT_ONCE: usize = 24;

#[test]
fn whole_remotes_no_call_runs_twice_and_every_lost_one_is_said_to_be_unknown() {
    let tally = run_all(repetitions(200));
    let missing = Fate::ALL.iter().filter(|fate| !tally.contains_key(fate));
    let missing: Vec<_> = missing.collect();
    assert!(
        tally.values().sum::<usize>() < ENOUGH_CALLS || missing.is_empty(),
        "the seeds never lead to {missing:?}: {tally:?}"
    );
}

/// Runs so many seeds, or the one that was chosen, and says how their calls ended. Fails with the
/// numbers of the seeds that failed.
fn run_all(count: u32) -> Tally {
    let seeds = match chosen_seed() {
        Some(seed) => seed..seed + 1,
        None => 0..u64::from(count),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let run = |seed| async move {
        let outcome = AssertUnwindSafe(seed_run::run(seed)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err("it panicked, see above".to_owned()));
        (seed, outcome)
    };
    let outcomes = stream::iter(seeds.clone())
        .map(run)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<_>>();
    let mut tally = Tally::new();
    let mut failed = Vec::new();
    for (seed, outcome) in runtime.block_on(outcomes) {
        match outcome {
            Ok(fates) => fates
                .into_iter()
                .for_each(|(fate, calls)| *tally.entry(fate).or_default() += calls),
            Err(problem) => failed.push((seed, problem)),
        }
    }
    println!("seeds {seeds:?}: {tally:?}");
    failed.sort_unstable();
    if let Some((seed, problem)) = failed.first() {
        let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
        panic!("seeds {seeds:?} failed. SWITCHBOARD_SEED={seed} repeats the first: {problem}");
    }
    tally
}

#[expect(
    clippy::disallowed_methods,
    reason = "how a seed that failed is run again"
)]
fn chosen_seed() -> Option<u64> {
    let seed = std::env::var("SWITCHBOARD_SEED").ok()?;
    Some(seed.parse().unwrap())
}
