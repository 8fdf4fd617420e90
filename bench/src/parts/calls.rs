//! Calls over stdio: latency, rate and CPU time.

use super::{CALL_KINDS, CallKind, Filter, run_alternately};
use crate::clients::Client;
use crate::job::Job;
use crate::report::{Line, Report, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "calls";
const REPEATS: usize = 7;
/// Results on two cores vary with the scheduling of sleeping threads.
const REPEATS_ON_TWO: usize = 31;

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    for kind in filter.select(PART, &CALL_KINDS, |kind| kind.name) {
        report.section(&format!("{}, one core", kind.name));
        measure(runner, report, kind, Cores::One);
    }
    let most_in_flight = &CALL_KINDS[2];
    for (cores, how) in [
        (Cores::Two, "two cores"),
        (Cores::TwoWithOneWorker, "two cores, one worker"),
    ] {
        let name = format!("{}, {how}", most_in_flight.name);
        if !filter.matches(PART, &name) {
            continue;
        }
        report.section(&name);
        if runner.has(cores) {
            measure(runner, report, most_in_flight, cores);
        } else {
            report.skip(&name, "the machine has one core");
        }
    }
}

fn measure(runner: &Runner, report: &mut Report, kind: &CallKind, cores: Cores) {
    let job = Job::Calls(kind.timed());
    let repeats = match cores {
        Cores::One => REPEATS,
        Cores::Two | Cores::TwoWithOneWorker => REPEATS_ON_TWO,
    };
    let samples = run_alternately(runner, Client::Baseline, &job, cores, repeats);
    for (what, unit, figure) in [
        ("p50", Unit::Micros, "p50"),
        ("p99", Unit::Micros, "p99"),
        ("calls per second", Unit::PerSecond, "rate"),
        ("client CPU per call", Unit::Micros, "cpu"),
    ] {
        let line = Line::of(what, unit, figure, &samples);
        report.add(match target_and_label(kind.name, figure, cores) {
            Some((target, label)) => line.target(target).chart_label(label),
            None => line,
        });
    }
    if kind.in_flight > 1 {
        let samples = run_alternately(runner, Client::BatchingBaseline, &job, cores, 3);
        let what = "calls per second, batching baseline";
        report.add(Line::of(what, Unit::PerSecond, "rate", &samples));
    }
}

/// The target of a figure and its label in the chart. The chart shows a rate as a time.
fn target_and_label(kind: &str, figure: &str, cores: Cores) -> Option<(Target, &'static str)> {
    Some(match (kind, figure, cores) {
        ("100 B, one at a time", "p50", Cores::One) => {
            (Target::RatioAtMost(1.5), "100 B, one at a time")
        }
        ("100 B, 64 in flight", "rate", Cores::One) => {
            (Target::RatioAtLeast(0.8), "100 B, 64 in flight")
        }
        ("100 B, 64 in flight", "rate", Cores::Two) => {
            (Target::RatioAtLeast(0.45), "100 B, 64 in flight, two cores")
        }
        ("100 B, 64 in flight", "rate", Cores::TwoWithOneWorker) => (
            Target::RatioAtLeast(0.55),
            "100 B, 64 in flight, two cores, one worker",
        ),
        ("100 B, 64 in flight", "cpu", Cores::One) => {
            (Target::RatioAtMost(1.4), "100 B, 64 in flight, CPU")
        }
        ("1 MB of text", "p50", Cores::One) => (Target::RatioAtMost(1.1), "1 MB of text"),
        ("1 MB of dense structure", "cpu", Cores::One) => {
            (Target::RatioAtMost(1.1), "1 MB of dense structure, CPU")
        }
        _ => return None,
    })
}
