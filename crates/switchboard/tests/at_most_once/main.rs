//! At-most-once delivery under random faults. A fault can occur before, during or after every part
//! of a call.
//!
//! `SWITCHBOARD_SEED=n` runs only seed n and prints how its calls ended.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod assertions;
mod child_process_run;
#[path = "../common/mod.rs"]
mod common;
mod fault_plan;
mod faulty_connection;
mod in_memory_run;
mod planned_call;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use assertions::{CallEnding, EndingCounts};
use common::permissive;
use fault_plan::{ConnectionPlan, Fault, FaultKind};
use faulty_connection::FaultyConnector;
use serde_json::json;
use switchboard::status::ConnectionStatus;
use switchboard::{Event, Readiness};
use switchboard_testkit::{MemoryServer, Script, repetitions};

/// If the in-memory test makes at least this many calls, each `CallEnding` must occur at least
/// once.
const CALLS_FOR_ALL_ENDINGS: usize = 800;

#[test]
fn stress_seeds_no_call_runs_twice() {
    let counts = run_all(repetitions(200), in_memory_run::run);
    let missing = CallEnding::ALL
        .iter()
        .filter(|ending| !counts.contains_key(ending));
    let missing: Vec<_> = missing.collect();
    assert!(
        counts.values().sum::<usize>() < CALLS_FOR_ALL_ENDINGS || missing.is_empty(),
        "the seeds never lead to {missing:?}: {counts:?}"
    );
}

#[test]
fn stress_seeds_no_call_runs_twice_in_child_processes() {
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

/// Runs `count` seeds, or only the chosen seed, and counts how their calls ended. Panics with the
/// numbers of the failed seeds.
fn run_all(count: u32, run: impl Fn(u64) -> Result<EndingCounts, String>) -> EndingCounts {
    let seeds = match chosen_seed() {
        Some(seed) => seed..seed + 1,
        None => 0..u64::from(count),
    };
    let mut counts = EndingCounts::new();
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        match outcome.unwrap_or_else(|_| Err("the run panicked, see above".to_owned())) {
            Ok(endings) => endings
                .into_iter()
                .for_each(|(ending, calls)| *counts.entry(ending).or_default() += calls),
            Err(problem) => failed.push((seed, problem)),
        }
    }
    println!("seeds {seeds:?}: {counts:?}");
    if let Some((seed, problem)) = failed.first() {
        let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
        panic!("seeds {seeds:?} failed. SWITCHBOARD_SEED={seed} repeats the first: {problem}");
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn modern_server_lost_during_probe_reconnects() {
    let closed_at_once = ConnectionPlan {
        to_host: Some(Fault {
            at: 0,
            kind: FaultKind::Close,
        }),
        ..ConnectionPlan::FAULTLESS
    };
    let server = MemoryServer::new(Script::modern().tool("echo"));
    let connections = vec![ConnectionPlan::FAULTLESS, closed_at_once];
    let connector = FaultyConnector::new(server.clone(), connections, &Arc::default());
    let host = permissive().connector("s", connector).start().unwrap();
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

#[expect(clippy::disallowed_methods, reason = "selects the seed to repeat")]
fn chosen_seed() -> Option<u64> {
    let seed = std::env::var("SWITCHBOARD_SEED").ok()?;
    Some(seed.parse().unwrap())
}
