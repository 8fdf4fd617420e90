//! At-most-once delivery over HTTP under random faults. A fault can occur before, during or after
//! every part of an HTTP exchange.
//!
//! The tests use loopback sockets and real time. Running a failed seed again repeats the plan, but
//! not the timing. `SWITCHBOARD_SEED=n` runs only seed n and prints how its calls ended.

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

use assertions::{CallEnding, EndingCounts};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use switchboard_testkit::repetitions;

/// If a test makes at least this many calls, each `CallEnding` must occur at least once, whatever
/// the timing.
const CALLS_FOR_ALL_ENDINGS: usize = 3_000;
/// Number of seeds that run concurrently. A seed spends most of its time waiting for I/O.
const CONCURRENT_SEEDS: usize = 24;

#[test]
fn stress_remotes_no_call_runs_twice() {
    let counts = run_all(repetitions(200));
    let missing = CallEnding::ALL
        .iter()
        .filter(|ending| !counts.contains_key(ending));
    let missing: Vec<_> = missing.collect();
    assert!(
        counts.values().sum::<usize>() < CALLS_FOR_ALL_ENDINGS || missing.is_empty(),
        "the seeds never lead to {missing:?}: {counts:?}"
    );
}

/// Runs `count` seeds, or only the chosen seed, and counts how their calls ended. Panics with the
/// numbers of the failed seeds.
fn run_all(count: u32) -> EndingCounts {
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
        let outcome = outcome.unwrap_or_else(|_| Err("the run panicked, see above".to_owned()));
        (seed, outcome)
    };
    let outcomes = stream::iter(seeds.clone())
        .map(run)
        .buffer_unordered(CONCURRENT_SEEDS)
        .collect::<Vec<_>>();
    let mut counts = EndingCounts::new();
    let mut failed = Vec::new();
    for (seed, outcome) in runtime.block_on(outcomes) {
        match outcome {
            Ok(endings) => endings
                .into_iter()
                .for_each(|(ending, calls)| *counts.entry(ending).or_default() += calls),
            Err(problem) => failed.push((seed, problem)),
        }
    }
    println!("seeds {seeds:?}: {counts:?}");
    failed.sort_unstable();
    if let Some((seed, problem)) = failed.first() {
        let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
        panic!("seeds {seeds:?} failed. SWITCHBOARD_SEED={seed} repeats the first: {problem}");
    }
    counts
}

#[expect(clippy::disallowed_methods, reason = "selects the seed to repeat")]
fn chosen_seed() -> Option<u64> {
    let seed = std::env::var("SWITCHBOARD_SEED").ok()?;
    Some(seed.parse().unwrap())
}
