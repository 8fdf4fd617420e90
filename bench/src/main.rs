//! Ratios to a hand-written floor, in one run: `just bench`.
//!
//! Every client talks to a child of its own of the same neutral server. All of it runs on one core
//! when started under `taskset -c 0`. Repeats are interleaved (floor, rmcp, switchboard, floor, …)
//! and the median of the per-repeat ratios is printed, so that a machine that gets slower in the
//! middle does not favour anybody.

mod floor;
mod measure;
mod ours;
mod theirs;

use std::path::{Path, PathBuf};

use measure::{Client, Sample, Work, median};

const REPEATS: usize = 7;

const WORKS: [Work; 6] = [
    Work {
        name: "100 B, one at a time",
        tool: "echo",
        size: 100,
        in_flight: 1,
        calls: 5_000,
    },
    Work {
        name: "100 B, 16 in flight",
        tool: "echo",
        size: 100,
        in_flight: 16,
        calls: 20_000,
    },
    Work {
        name: "100 B, 64 in flight",
        tool: "echo",
        size: 100,
        in_flight: 64,
        calls: 30_000,
    },
    Work {
        name: "10 KB, one at a time",
        tool: "blob",
        size: 10_000,
        in_flight: 1,
        calls: 3_000,
    },
    Work {
        name: "1 MB of text",
        tool: "blob",
        size: 1_000_000,
        in_flight: 1,
        calls: 200,
    },
    Work {
        name: "1 MB of dense structure",
        tool: "dense",
        size: 1_000_000,
        in_flight: 1,
        calls: 60,
    },
];

type Run = fn(&Path, &Work) -> Sample;

const CLIENTS: [(&str, Run); 3] = [
    ("floor", floor::Floor::run),
    ("rmcp 3.8", theirs::Rmcp::run),
    ("switchboard", ours::Switchboard::run),
];

/// `bench [WORK [CLIENT]]`: only what contains these words. One client alone runs once, for a
/// profiler to watch.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |place: usize, name: &str| {
        words
            .get(place)
            .is_none_or(|word| name.contains(word.as_str()))
    };
    let server = server();
    if words.len() > 1 {
        for work in WORKS.iter().filter(|work| wanted(0, work.name)) {
            for (_, run) in CLIENTS.iter().filter(|(client, _)| wanted(1, client)) {
                run(&server, work);
            }
        }
        return;
    }
    println!(
        "{:<26}{:>14}{:>12}{:>12}{:>12}{:>12}",
        "", "client", "p50", "p99", "calls/s", "CPU/call"
    );
    for work in WORKS.iter().filter(|work| wanted(0, work.name)) {
        let mut samples = CLIENTS.map(|_| Vec::new());
        for _ in 0..REPEATS {
            for ((_, run), samples) in CLIENTS.iter().zip(&mut samples) {
                samples.push(run(&server, work));
            }
        }
        for ((client, _), own) in CLIENTS.iter().zip(&samples) {
            print(work, client, own, &samples[0]);
        }
    }
}

fn print(work: &Work, client: &str, own: &[Sample], floor: &[Sample]) {
    let ratio = |of: fn(&Sample) -> f64| {
        median(
            own.iter()
                .zip(floor)
                .map(|(own, floor)| of(own) / of(floor))
                .collect(),
        )
    };
    let absolute = |of: fn(&Sample) -> f64| median(own.iter().map(of).collect());
    println!(
        "{:<26}{:>14}{:>7.2}×{:>11.2}×{:>11.2}×{:>11.2}×   ({:.1} µs, {:.0}/s, {:.1} µs CPU)",
        work.name,
        client,
        ratio(|sample| sample.p50),
        ratio(|sample| sample.p99),
        ratio(|sample| sample.rate),
        ratio(|sample| sample.cpu),
        absolute(|sample| sample.p50),
        absolute(|sample| sample.rate),
        absolute(|sample| sample.cpu),
    );
}

/// The server program, which lies beside this one.
fn server() -> PathBuf {
    let mut path = std::env::current_exe().expect("a program knows where it is");
    path.set_file_name("neutral-server");
    path
}
