//! Instructions per call, counted by callgrind: the difference of a short and a long run, so that
//! start-up cancels. The result does not depend on the load of the machine.

use super::{CALL_KINDS, CallKind, Filter, HTTP_CALL_KINDS};
use crate::clients::Client;
use crate::job::{Figures, Transport};
use crate::report::{Line, Report, Samples, Unit};
use crate::runner::{NoValgrind, Runner};

const PART: &str = "instructions";

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    let over_stdio = filter.select(PART, &CALL_KINDS, |kind| kind.name);
    let over_http = filter.select(PART, &HTTP_CALL_KINDS, |kind| kind.name);
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

fn count(runner: &Runner, kind: &CallKind) -> Result<Samples, NoValgrind> {
    let per_call = |client: Client| {
        let [short, long] = kind.short_and_long();
        let calls = (long.calls - short.calls) as f64;
        let short = runner.instructions(client, &short)?;
        let long = runner.instructions(client, &long)?;
        Ok(vec![Figures::default().with(PART, (long - short) / calls)])
    };
    let rmcp = match kind.transport {
        Transport::Stdio => Client::Rmcp,
        Transport::Http => Client::PooledRmcp,
    };
    Ok(Samples {
        baseline: per_call(Client::Baseline)?,
        rmcp: per_call(rmcp)?,
        ours: per_call(Client::Switchboard)?,
    })
}
