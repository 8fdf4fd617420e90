//! Cost per server with 50 and with 1,000 servers, and per call with 1 and with 1,000 servers. Both
//! columns are Switchboard.

use super::{CALL_KINDS, Filter};
use crate::clients::Client;
use crate::job::{Figures, Job, Work};
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::{Cores, NoValgrind, Runner};

const PART: &str = "growth";
const REPEATS: usize = 3;
const FEW: usize = 50;
const MANY: usize = 1_000;

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    if filter.matches(PART, "per server") {
        per_server(runner, report);
    }
    if filter.matches(PART, "instructions of a call") {
        per_call(runner, report);
    }
}

fn per_server(runner: &Runner, report: &mut Report) {
    report.section_of(
        "growth: cost per stdio server",
        ["50 servers", "", "1,000 servers"],
    );
    let one = Job::Connect { servers: 1 };
    let samples = |servers: usize| -> Vec<Figures> {
        let job = Job::Connect { servers };
        let share = servers as f64;
        let each = |_| {
            let smaller = runner.run(Client::Switchboard, &one, Cores::Two);
            let larger = runner.run(Client::Switchboard, &job, Cores::Two);
            let resident = larger.of("resident") - smaller.of("resident");
            Figures::default()
                .with("ready", larger.of("ready") / share)
                .with("resident", resident / (share - 1.0))
        };
        (0..REPEATS).map(each).collect()
    };
    let samples = Samples {
        baseline: samples(FEW),
        rmcp: Vec::new(),
        ours: samples(MANY),
    };
    for (what, unit, figure) in [
        ("time until listed, per server", Unit::Millis, "ready"),
        ("memory per idle server", Unit::Kib, "resident"),
    ] {
        let line = Line::of(what, unit, figure, &samples);
        report.add(line.target(Target::RatioAtMost(1.5)));
    }
}

fn per_call(runner: &Runner, report: &mut Report) {
    report.section_of(
        "growth: instructions per call",
        ["1 server", "", "1,000 servers"],
    );
    let [kind, ..] = &CALL_KINDS;
    let per_call = |idle_servers: usize| -> Result<Vec<Figures>, NoValgrind> {
        let with_idle = |work: Work| Work {
            idle_servers,
            ..work
        };
        let [short, long] = kind.short_and_long().map(with_idle);
        let calls = (long.calls - short.calls) as f64;
        let short = runner.instructions(Client::Switchboard, &short)?;
        let long = runner.instructions(Client::Switchboard, &long)?;
        Ok(vec![Figures::default().with(PART, (long - short) / calls)])
    };
    let samples = per_call(0).and_then(|few| {
        Ok(Samples {
            baseline: few,
            rmcp: Vec::new(),
            ours: per_call(MANY - 1)?,
        })
    });
    match samples {
        Ok(samples) => {
            let line = Line::of(kind.name, Unit::Instructions, PART, &samples);
            report.add(line.target(Target::RatioAtMost(1.02)));
        }
        Err(NoValgrind) => report.skip(PART, "valgrind is not installed"),
    }
}
