//! Compares Switchboard with two other clients: `just bench`.
//!
//! Three clients run the same jobs against the same server program: a hand-written client (the
//! baseline), rmcp's client, and Switchboard with its whole pipeline. `docs/bench.md` describes the
//! method.

mod chart;
mod clients;
mod job;
mod memory;
mod parts;
mod report;
mod runner;

use clients::Client;
use job::Job;
use parts::{CALL_KINDS, Filter, HTTP_CALL_KINDS};
use report::Report;
use runner::Runner;

/// - `bench [WORD]` makes every measurement whose name contains the word.
/// - `bench --svg FILE` makes all measurements and writes a chart.
/// - `bench WORD CLIENT` makes the calls whose name contains the word, with one client in this
///   process and without a report. It is meant for a profiler.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => drop(measure(None)),
        [runner::WORKER, client, job] => run_worker(client, job),
        ["--svg", file] => {
            let svg = chart::draw(&measure(None).lines);
            std::fs::write(file, svg).expect("the chart can be written");
        }
        [word] => drop(measure(Some(word))),
        [word, client] => make_calls(word, client),
        _ => panic!("usage: bench [WORD [CLIENT] | --svg FILE]"),
    }
}

fn measure(word: Option<&str>) -> Report {
    println!("{}", report::machine());
    let mut report = Report::default();
    let filter = Filter(word.map(str::to_owned));
    parts::run(&Runner::new(), &mut report, &filter);
    report.summary();
    report
}

/// Runs one job in this process, for [`Runner`].
fn run_worker(client: &str, job: &str) {
    let job: Job = serde_json::from_str(job).expect("the job is valid JSON");
    let figures = client_named(client).run(&job);
    println!(
        "{}",
        serde_json::to_string(&figures).expect("figures serialize to JSON")
    );
}

fn make_calls(word: &str, client: &str) {
    let kinds = CALL_KINDS.iter().chain(&HTTP_CALL_KINDS);
    for kind in kinds.filter(|kind| kind.name.contains(word)) {
        client_named(client).run(&Job::Calls(kind.timed()));
    }
}

fn client_named(name: &str) -> Client {
    let mut clients = Client::ALL.into_iter();
    clients
        .find(|client| client.name() == name)
        .expect("the client is baseline, batching-baseline, rmcp, pooled-rmcp or switchboard")
}
