//! 50 servers in one host: 40 healthy servers under steady load, and ten others that are idle or
//! hostile. With the filter `hostile: KIND`, all ten are hostile in that way.

use super::Filter;
use crate::clients::Client;
use crate::job::Job;
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "hostile";
const REPEATS: usize = 11;
const OTHERS: usize = 10;
const KINDS: [&str; 6] = ["notifications", "stderr", "stall", "crash", "slow", "huge"];

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    if filter.matches(PART, "10 hostile among 50") {
        measure(runner, report, "hostile", &KINDS);
    }
    for kind in KINDS.iter().filter(|kind| filter.is_exactly(PART, kind)) {
        measure(runner, report, kind, std::slice::from_ref(kind));
    }
}

fn measure(runner: &Runner, report: &mut Report, name: &str, kinds: &[&str]) {
    report.section_of("40 healthy servers and 10 others", ["idle", "", name]);
    let kinds = kinds.iter().map(|kind| Some((*kind).to_owned()));
    let others = kinds.cycle().take(OTHERS).collect();
    let hostile = Job::Hostile { others };
    let idle = Job::Hostile {
        others: vec![None; OTHERS],
    };
    let mut samples = Samples::default();
    for _ in 0..REPEATS {
        let run = |job| runner.run(Client::Switchboard, job, Cores::Two);
        samples.baseline.push(run(&idle));
        samples.ours.push(run(&hostile));
    }
    report.add(Line::of(
        "p50 of healthy servers",
        Unit::Micros,
        "p50",
        &samples,
    ));
    let line = Line::of("p99 of healthy servers", Unit::Micros, "p99", &samples);
    report.add(line.target(Target::RatioAtMost(1.5)));
    let line = Line::of(
        "failed calls of healthy servers",
        Unit::Count,
        "failed",
        &samples,
    );
    report.add(line.target(Target::AtMost(0.0)));
    let line = Line::of("host CPU per call", Unit::Micros, "cpu", &samples);
    report.add(line);
}
