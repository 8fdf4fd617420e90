//! At most once, shown by seeds: faults before, in and after every part of a call.
//!
//! `SWITCHBOARD_SEED=n` runs the one seed n and prints how its calls ended.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
)]

mod assertions;
mod child_process_run;
#[path = "../common/mod.rs"]
mod common;
mod fault_plan;
mod faulty_link;
mod in_memory_run;
mod planned_call;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use assertions::{Fate, Tally};
use common::permissive;
use fault_plan::{Fault, How, LinkPlan};
use faulty_link::FaultyDial;
use serde_json::json;
use switchboard::status::ConnectionStatus;
use switchboard::{Event, Readiness};
use switchboard_testkit::{MemoryServer, Script, repetitions};

/// Among so many calls there is every fate that a call can have.
const ENOUGH_CALLS: usize = 800;

#[test]
fn whole_seeds_no_call_runs_twice_and_every_lost_one_is_said_to_be_unknown() {
    let tally = run_all(repetitions(200), in_memory_run::run);
    let missing = Fate::ALL.iter().filter(|fate| !tally.contains_key(fate));
    let missing: Vec<_> = missing.collect();
    assert!(
        tally.values().sum::<usize>() < ENOUGH_CALLS || missing.is_empty(),
        "the seeds never lead to {missing:?}: {tally:?}"
    );
}

#[test]
fn whole_seeds_hold_over_real_pipes_and_real_deaths() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let host = runtime.block_on(async { permissive().start().unwrap() });
    run_all(repetitions(40), |seed| {
        runtime.block_on(child_process_run::run(&host, seed))
    });
    runtime.block_on(host.shutdown());
}

/// Runs so many seeds, or the one that was chosen, and says how their calls ended. Fails with the
/// numbers of the seeds that failed.
fn run_all(count: u32, run: impl Fn(u64) -> Result<Tally, String>) -> Tally {
    let seeds = match chosen_seed() {
        Some(seed) => seed..seed + 1,
        None => 0..u64::from(count),
    };
    let mut tally = Tally::new();
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        match outcome.unwrap_or_else(|_| Err("it panicked, see above".to_owned())) {
            Ok(fates) => fates
                .into_iter()
                .for_each(|(fate, calls)| *tally.entry(fate).or_default() += calls),
            Err(problem) => failed.push((seed, problem)),
        }
    }
    println!("seeds {seeds:?}: {tally:?}");
    if let Some((seed, problem)) = failed.first() {
        let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
        panic!("seeds {seeds:?} failed. SWITCHBOARD_SEED={seed} repeats the first: {problem}");
    }
    tally
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_is_lost_in_the_probe_comes_back() {
    let lost_at_once = LinkPlan {
        to_host: Some(Fault {
            at: 0,
            how: How::Close,
        }),
        ..LinkPlan::SOUND
    };
    let server = MemoryServer::new(Script::modern().tool("echo"));
    let links = vec![LinkPlan::SOUND, lost_at_once];
    let dial = FaultyDial::new(server.clone(), links, &Arc::default());
    let host = permissive().connector("s", dial).start().unwrap();
    host.wait_for(Readiness::All).await;
    let mut events = host.events();
    server.kill();
    loop {
        match events.next().await.unwrap() {
            Event::ServerChanged {
                status: ConnectionStatus::Connected,
                ..
            } => break,
            Event::ServerChanged { status, detail, .. } => {
                assert_eq!(status, ConnectionStatus::Pending, "{detail:?}");
            }
            _ => {}
        }
    }
    let echo = host.call("mcp__s__echo", json!({"message": "hi"})).await;
    assert_eq!(echo.unwrap().to_text(), "hi");
}

#[expect(
    clippy::disallowed_methods,
    reason = "how a seed that failed is run again"
)]
fn chosen_seed() -> Option<u64> {
    let seed = std::env::var("SWITCHBOARD_SEED").ok()?;
    Some(seed.parse().unwrap())
}
