//! Time from process start until all servers are connected and listed.

use super::{Wanted, in_turn};
use crate::clients::Client;
use crate::job::Job;
use crate::report::{Line, Report, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "start";
const REPEATS: usize = 9;

pub fn run(runner: &Runner, report: &mut Report, wanted: &Wanted) {
    if !wanted.has(PART, "servers connected and listed") {
        return;
    }
    report.section("process start until servers are listed");
    for servers in [1, 10, 50] {
        let job = Job::Connect { servers };
        let samples = in_turn(runner, Client::Floor, &job, Cores::Two, REPEATS);
        let line = Line::of(
            &format!("servers: {servers}"),
            Unit::Millis,
            "ready",
            &samples,
        );
        report.add(match servers {
            50 => line
                .target(Target::RatioAtMost(1.2))
                .pictured("start of 50 servers"),
            _ => line,
        });
    }
}
