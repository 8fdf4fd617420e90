//! At most once, shown by seeds: faults before, in and after every part of a call.
//!
//! `SWITCHBOARD_SEED=n` runs the one seed n and prints how its calls ended.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
)]

#[path = "../common/mod.rs"]
mod common;
mod judge;
mod link;
mod plan;
mod seeds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::permissive;
use judge::{Fate, Tally};
use link::FaultyDial;
use plan::{Fault, How, LinkPlan};
use serde_json::json;
use switchboard::{ConnectionStatus, Event, Readiness};
use switchboard_testkit::{MemoryServer, Script, rounds};

/// So many seeds meet every fate that a call can have.
const ENOUGH_FOR_EVERY_FATE: u32 = 100;

#[test]
fn whole_seeds_no_call_runs_twice_and_every_lost_one_is_said_to_be_unknown() {
    if let Some(seed) = chosen_seed() {
        println!("seed {seed}: {:?}", run(seed).unwrap());
        return;
    }
    let count = rounds(200);
    let mut tally = Tally::new();
    let mut failed = Vec::new();
    for seed in 0..u64::from(count) {
        match run(seed) {
            Ok(fates) => fates
                .into_iter()
                .for_each(|(fate, calls)| *tally.entry(fate).or_default() += calls),
            Err(problem) => failed.push((seed, problem)),
        }
    }
    println!("{count} seeds: {tally:?}");
    if let Some((seed, problem)) = failed.first() {
        let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
        panic!("seeds {seeds:?} failed. SWITCHBOARD_SEED={seed} repeats the first: {problem}");
    }
    let missing = Fate::ALL.iter().filter(|fate| !tally.contains_key(fate));
    let missing: Vec<_> = missing.collect();
    assert!(
        count < ENOUGH_FOR_EVERY_FATE || missing.is_empty(),
        "the seeds never lead to {missing:?}: {tally:?}"
    );
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
    let host = permissive().stream_server("s", dial).start().unwrap();
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

/// Runs a seed; a panic is a failure of that seed.
fn run(seed: u64) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(|| seeds::run(seed)))
        .unwrap_or_else(|_| Err("it panicked, see above".to_owned()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "how a seed that failed is run again"
)]
fn chosen_seed() -> Option<u64> {
    let seed = std::env::var("SWITCHBOARD_SEED").ok()?;
    Some(seed.parse().unwrap())
}
