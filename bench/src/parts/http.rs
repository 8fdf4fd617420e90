//! Calls over HTTP. rmcp is measured twice: with a client that keeps its connections, which the
//! caller has to provide, and with its default of one connection per call.

use super::{CallKind, Filter, HTTP_CALL_KINDS};
use crate::clients::Client;
use crate::job::Job;
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "http";
const REPEATS: usize = 7;

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    for kind in filter.select(PART, &HTTP_CALL_KINDS, |kind| kind.name) {
        let title = format!("{}, one core", kind.name);
        report.section_of(&title, ["baseline", "rmcp 3.8, pooled", "switchboard"]);
        measure(runner, report, kind);
    }
}

fn measure(runner: &Runner, report: &mut Report, kind: &CallKind) {
    let job = Job::Calls(kind.timed());
    let run = |client| runner.run(client, &job, Cores::One);
    let (mut samples, mut unpooled) = (Samples::default(), Samples::default());
    for _ in 0..REPEATS {
        samples.baseline.push(run(Client::Baseline));
        samples.rmcp.push(run(Client::PooledRmcp));
        samples.ours.push(run(Client::Switchboard));
        unpooled.rmcp.push(run(Client::Rmcp));
    }
    unpooled.baseline.clone_from(&samples.baseline);
    for (what, unit, figure) in [
        ("p50", Unit::Micros, "p50"),
        ("p99", Unit::Micros, "p99"),
        ("calls per second", Unit::PerSecond, "rate"),
        ("client CPU per call", Unit::Micros, "cpu"),
    ] {
        let line = Line::of(what, unit, figure, &samples);
        report.add(match target_and_label(kind.name, figure) {
            Some((target, label)) => line.target(target).chart_label(label),
            None => line,
        });
        let what = format!("{what}, rmcp default");
        report.add(Line::of(&what, unit, figure, &unpooled));
    }
}

/// The target of a figure and its label in the chart. The chart shows a rate as a time.
fn target_and_label(kind: &str, figure: &str) -> Option<(Target, &'static str)> {
    Some(match (kind, figure) {
        ("HTTP, 100 B, one at a time", "p50") => {
            (Target::RatioAtMost(1.6), "HTTP, 100 B, one at a time")
        }
        ("HTTP, 100 B, 64 in flight", "rate") => {
            (Target::RatioAtLeast(0.5), "HTTP, 100 B, 64 in flight")
        }
        ("HTTP, 100 B, 64 in flight", "cpu") => {
            (Target::RatioAtMost(2.5), "HTTP, 100 B, 64 in flight, CPU")
        }
        ("HTTP, 1 MB of text", "p50") => (Target::RatioAtMost(1.4), "HTTP, 1 MB of text"),
        _ => return None,
    })
}
