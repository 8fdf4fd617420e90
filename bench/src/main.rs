//! What Switchboard costs, in one run: `just bench`.
//!
//! Three clients do the same jobs against the same neutral server: a floor written by hand, rmcp's
//! client, and Switchboard through its whole pipeline. `docs/bench.md` says how each figure is taken.

mod clients;
mod job;
mod parts;
mod report;
mod runner;

use clients::Client;
use job::Job;
use parts::{KINDS, Wanted};
use report::Report;
use runner::Runner;

/// `bench [WORD]` measures every part whose name contains the word.
/// `bench WORD CLIENT` only makes the calls, for a profiler to watch.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => measure(&Wanted(None)),
        [runner::DO, client, job] => work(client, job),
        [word] => measure(&Wanted(Some((*word).to_owned()))),
        [word, client] => make_calls(word, client),
        _ => panic!("usage: bench [WORD [CLIENT]]"),
    }
}

fn measure(wanted: &Wanted) {
    let runner = Runner::new();
    let mut report = Report::default();
    parts::calls::run(&runner, &mut report, wanted);
    parts::instructions::run(&runner, &mut report, wanted);
}

/// One job in this process, for [`Runner`].
fn work(client: &str, job: &str) {
    let job: Job = serde_json::from_str(job).expect("a job");
    let figures = named(client).run(&job);
    println!(
        "{}",
        serde_json::to_string(&figures).expect("figures are JSON")
    );
}

fn make_calls(word: &str, client: &str) {
    for kind in KINDS.iter().filter(|kind| kind.name.contains(word)) {
        named(client).run(&Job::Calls(kind.timed()));
    }
}

fn named(name: &str) -> Client {
    let mut clients = Client::ALL.into_iter();
    clients
        .find(|client| client.name() == name)
        .expect("a client: floor, batching-floor, rmcp or switchboard")
}
