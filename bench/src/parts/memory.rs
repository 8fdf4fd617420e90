//! Memory of the client process per idle server, and for a long listing. Each figure is the
//! difference between two processes with different numbers of servers or tools.

use super::Filter;
use crate::clients::Client;
use crate::job::{Figures, Job};
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "memory";
const REPEATS: usize = 5;
const SERVERS: usize = 50;
const TOOLS: usize = 10_000;

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    if !filter.matches(PART, "idle servers, tools listed") {
        return;
    }
    report.section("client memory");
    let one = Job::Connect { servers: 1 };
    let more = Job::Connect {
        servers: 1 + SERVERS,
    };
    let idle = growth(runner, &one, &more, SERVERS);
    let line = Line::of("per idle server", Unit::Kib, "resident", &idle);
    report.add(line.target(Target::AtMost(64.0)));

    let few = Job::List { tools: 1 };
    let many = Job::List { tools: TOOLS };
    let listed = growth(runner, &few, &many, 1);
    let line = Line::of("10,000 tools listed", Unit::Kib, "resident", &listed);
    report.add(line.target(Target::AtMost(60.0 * 1024.0)));
    report.add(Line::of(
        "10,000 tools listed, peak",
        Unit::Kib,
        "peak",
        &listed,
    ));
}

/// The additional memory of the larger job, divided by `share`.
fn growth(runner: &Runner, smaller: &Job, larger: &Job, share: usize) -> Samples {
    let of = |client: Client| {
        (0..REPEATS)
            .map(|_| {
                let smaller = runner.run(client, smaller, Cores::Two);
                let larger = runner.run(client, larger, Cores::Two);
                let each = |name| (larger.of(name) - smaller.of(name)) / share as f64;
                Figures::default()
                    .with("resident", each("resident"))
                    .with("peak", each("peak"))
            })
            .collect()
    };
    Samples {
        baseline: Vec::new(),
        rmcp: of(Client::Rmcp),
        ours: of(Client::Switchboard),
    }
}
