//! Calls to a server in the client's process. rmcp's client and server use a channel of typed
//! messages; the baseline is a function call whose arguments and result are converted to and from
//! JSON text.

use super::Filter;
use crate::clients::Client;
use crate::job::Job;
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "in process";
const REPEATS: usize = 5;
const CALLS: usize = 20_000;

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    if !filter.matches(PART, "100 B") {
        return;
    }
    report.section("in process, 100 B, one at a time");
    let job = Job::InProcess { calls: CALLS };
    let mut samples = Samples::default();
    for _ in 0..REPEATS {
        samples
            .baseline
            .push(runner.run(Client::Baseline, &job, Cores::One));
        samples
            .rmcp
            .push(runner.run(Client::Rmcp, &job, Cores::One));
        samples
            .ours
            .push(runner.run(Client::Switchboard, &job, Cores::One));
    }
    let line = Line::of("p50", Unit::Micros, "p50", &samples);
    report.add(line.target(Target::AtMost(5.0)));
    report.add(Line::of("CPU per call", Unit::Micros, "cpu", &samples));
}
