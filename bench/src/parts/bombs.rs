//! JSON that would be much larger in memory than on the wire. Each message is slightly smaller than
//! the message size limit.

use super::Filter;
use crate::clients::Client;
use crate::job::Job;
use crate::report::{Line, Report, Samples, Target, Unit};
use crate::runner::{Cores, Runner};

const PART: &str = "bombs";
const REPEATS: usize = 5;
/// The message size limit of 16 MiB, minus 1 KiB for the rest of the message.
const SIZE: usize = 16 * 1024 * 1024 - 1024;

const SHAPES: [(&str, &str); 5] = [
    ("bomb-objects", r#"[{"":0},{"":0},…]"#),
    ("bomb-lists", "[[0],[0],…]"),
    ("bomb-deep", "[[[[…]]]]"),
    ("bomb-wide", r#"{"0":0,"1":0,…}"#),
    ("bomb-keys", "keys of 256 KiB"),
];

pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    let mut shapes = filter.select(PART, &SHAPES, |(tool, _)| tool).peekable();
    if shapes.peek().is_some() {
        report.section("JSON bombs of 16 MiB");
    }
    for (tool, description) in shapes {
        let job = Job::Bomb {
            shape: (*tool).to_owned(),
            size: SIZE,
        };
        let measure = |_| runner.run(Client::Switchboard, &job, Cores::One);
        let samples = Samples {
            ours: (0..REPEATS).map(measure).collect(),
            ..Samples::default()
        };
        let cpu = Line::of(&format!("{description} CPU"), Unit::Micros, "cpu", &samples);
        report.add(cpu.target(Target::AtMost(150_000.0)));
        let growth = Line::of(
            &format!("{description} memory"),
            Unit::Kib,
            "growth",
            &samples,
        );
        report.add(growth.target(Target::AtMost(64.0 * 1024.0)));
    }
}
