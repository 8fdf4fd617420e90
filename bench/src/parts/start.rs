//! Time from process start until all servers are connected and listed.

use super::{Filter, run_alternately};
use crate::clients::Client;
use crate::job::Job;
use crate::report::{Line, Report, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "start";
const REPEATS: usize = 9;

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    if !filter.matches(PART, "servers connected and listed") {
        return;
    }
    report.section("process start until servers are listed");
    for servers in [1, 10, 50] {
        let job = Job::Connect { servers };
        let samples = run_alternately(runner, Client::Baseline, &job, Cores::Two, REPEATS);
        let line = Line::of(
            &format!("servers: {servers}"),
            Unit::Millis,
            "ready",
            &samples,
        );
        report.add(match servers {
            50 => line
                .target(Target::RatioAtMost(1.1))
                .chart_label("start of 50 servers"),
            _ => line,
        });
    }
}
