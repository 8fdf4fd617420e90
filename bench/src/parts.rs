//! The parts of the benchmark.

mod bombs;
mod calls;
mod crowd;
mod http;
mod instructions;
mod local;
mod memory;
mod shell;
mod start;

use crate::clients::Client;
use crate::job::{Job, Over, Work};
use crate::report::{Report, Samples};
use crate::runner::{Cores, Runner};

/// A kind of call, measured by `calls`, `http` and `instructions`.
pub struct Kind {
    pub name: &'static str,
    over: Over,
    tool: &'static str,
    size: usize,
    in_flight: usize,
    /// Number of calls for a stable time.
    calls: usize,
    /// Number of calls for an instruction count, which does not vary.
    counted: usize,
}

pub const KINDS: [Kind; 6] = [
    Kind {
        name: "100 B, one at a time",
        over: Over::Stdio,
        tool: "echo",
        size: 100,
        in_flight: 1,
        calls: 5_000,
        counted: 300,
    },
    Kind {
        name: "100 B, 16 in flight",
        over: Over::Stdio,
        tool: "echo",
        size: 100,
        in_flight: 16,
        calls: 16_000,
        counted: 480,
    },
    Kind {
        name: "100 B, 64 in flight",
        over: Over::Stdio,
        tool: "echo",
        size: 100,
        in_flight: 64,
        calls: 25_600,
        counted: 640,
    },
    Kind {
        name: "10 KB, one at a time",
        over: Over::Stdio,
        tool: "blob",
        size: 10_000,
        in_flight: 1,
        calls: 3_000,
        counted: 200,
    },
    Kind {
        name: "1 MB of text",
        over: Over::Stdio,
        tool: "blob",
        size: 1_000_000,
        in_flight: 1,
        calls: 150,
        counted: 10,
    },
    Kind {
        name: "1 MB of dense structure",
        over: Over::Stdio,
        tool: "dense",
        size: 1_000_000,
        in_flight: 1,
        calls: 40,
        counted: 1,
    },
];

pub const HTTP_KINDS: [Kind; 3] = [
    Kind {
        name: "HTTP, 100 B, one at a time",
        over: Over::Http,
        tool: "echo",
        size: 100,
        in_flight: 1,
        calls: 5_000,
        counted: 300,
    },
    Kind {
        name: "HTTP, 100 B, 64 in flight",
        over: Over::Http,
        tool: "echo",
        size: 100,
        in_flight: 64,
        calls: 12_800,
        counted: 640,
    },
    Kind {
        name: "HTTP, 1 MB of text",
        over: Over::Http,
        tool: "blob",
        size: 1_000_000,
        in_flight: 1,
        calls: 150,
        counted: 10,
    },
];

impl Kind {
    /// The calls to measure by time.
    pub fn timed(&self) -> Work {
        self.work(self.calls.div_ceil(10).max(self.in_flight), self.calls)
    }

    /// A short and a long run. Their difference is `counted` calls without start-up.
    fn short_and_long(&self) -> [Work; 2] {
        let warm_up = self.in_flight.max(self.counted / 4).max(1);
        [self.counted, 2 * self.counted].map(|calls| self.work(warm_up, calls))
    }

    fn work(&self, warm_up: usize, calls: usize) -> Work {
        Work {
            over: self.over,
            tool: self.tool.to_owned(),
            size: self.size,
            in_flight: self.in_flight,
            warm_up,
            calls,
        }
    }
}

/// A filter: selects the parts whose name contains the word.
pub struct Wanted(pub Option<String>);

impl Wanted {
    pub fn has(&self, part: &str, name: &str) -> bool {
        let whole = format!("{part}: {name}");
        self.0
            .as_ref()
            .is_none_or(|word| whole.contains(word.as_str()))
    }

    /// Whether the filter is exactly this name.
    fn names(&self, part: &str, name: &str) -> bool {
        self.0.as_deref() == Some(&format!("{part}: {name}"))
    }

    fn among<'a, T>(
        &self,
        part: &str,
        all: &'a [T],
        name: fn(&T) -> &str,
    ) -> impl Iterator<Item = &'a T> {
        all.iter().filter(move |it| self.has(part, name(it)))
    }
}

/// Runs the selected parts.
pub fn run(runner: &Runner, report: &mut Report, wanted: &Wanted) {
    calls::run(runner, report, wanted);
    http::run(runner, report, wanted);
    instructions::run(runner, report, wanted);
    local::run(runner, report, wanted);
    start::run(runner, report, wanted);
    memory::run(runner, report, wanted);
    shell::run(runner, report, wanted);
    crowd::run(runner, report, wanted);
    bombs::run(runner, report, wanted);
}

/// Runs the job with the three clients alternately, `repeats` times.
fn in_turn(runner: &Runner, floor: Client, job: &Job, cores: Cores, repeats: usize) -> Samples {
    let mut samples = Samples::default();
    for _ in 0..repeats {
        samples.floor.push(runner.run(floor, job, cores));
        samples.rmcp.push(runner.run(Client::Rmcp, job, cores));
        samples
            .ours
            .push(runner.run(Client::Switchboard, job, cores));
    }
    samples
}
