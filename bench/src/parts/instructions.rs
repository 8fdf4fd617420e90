//! Instructions per call, counted by callgrind: the difference of a short and a long run, so that
//! start-up cancels. The result does not depend on the load of the machine.

use super::{HTTP_KINDS, KINDS, Kind, Wanted};
use crate::clients::Client;
use crate::job::{Figures, Over};
use crate::report::{Line, Report, Samples, Unit};
use crate::runner::{NoValgrind, Runner};

const PART: &str = "instructions";

pub fn run(runner: &Runner, report: &mut Report, wanted: &Wanted) {
    let over_stdio = wanted.among(PART, &KINDS, |kind| kind.name);
    let over_http = wanted.among(PART, &HTTP_KINDS, |kind| kind.name);
    let mut kinds = over_stdio.chain(over_http).peekable();
    if kinds.peek().is_some() {
        report.section("instructions per call");
    }
    for kind in kinds {
        match count(runner, kind) {
            Ok(samples) => report.add(Line::of(kind.name, Unit::Instructions, PART, &samples)),
            Err(NoValgrind) => return report.skip(PART, "valgrind is not installed"),
        }
    }
}

fn count(runner: &Runner, kind: &Kind) -> Result<Samples, NoValgrind> {
    let per_call = |client: Client| {
        let [short, long] = kind.short_and_long();
        let calls = (long.calls - short.calls) as f64;
        let short = runner.instructions(client, &short)?;
        let long = runner.instructions(client, &long)?;
        Ok(vec![Figures::default().with(PART, (long - short) / calls)])
    };
    let rmcp = match kind.over {
        Over::Stdio => Client::Rmcp,
        Over::Http => Client::PooledRmcp,
    };
    Ok(Samples {
        floor: per_call(Client::Floor)?,
        rmcp: per_call(rmcp)?,
        ours: per_call(Client::Switchboard)?,
    })
}
