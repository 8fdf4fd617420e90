//! The parts of the benchmark.

mod bombs;
mod calls;
mod growth;
mod hostile;
mod http;
mod in_process;
mod instructions;
mod memory;
mod shell;
mod start;

use crate::clients::Client;
use crate::job::{Job, Transport, Work};
use crate::report::{Report, Samples};
use crate::runner::{Cores, Runner};

/// A tool call by size, transport and concurrency. The part `calls` measures the kinds over stdio,
/// `http` those over HTTP, and `instructions` both.
pub struct CallKind {
    pub name: &'static str,
    transport: Transport,
    tool: &'static str,
    size: usize,
    in_flight: usize,
    /// Number of calls for a stable time.
    calls: usize,
    /// Number of calls for an instruction count, which does not vary.
    counted: usize,
}

pub const CALL_KINDS: [CallKind; 6] = [
    CallKind {
        name: "100 B, one at a time",
        transport: Transport::Stdio,
        tool: "echo",
        size: 100,
        in_flight: 1,
        calls: 5_000,
        counted: 300,
    },
    CallKind {
        name: "100 B, 16 in flight",
        transport: Transport::Stdio,
        tool: "echo",
        size: 100,
        in_flight: 16,
        calls: 16_000,
        counted: 480,
    },
    CallKind {
        name: "100 B, 64 in flight",
        transport: Transport::Stdio,
        tool: "echo",
        size: 100,
        in_flight: 64,
        calls: 25_600,
        counted: 640,
    },
    CallKind {
        name: "10 KB, one at a time",
        transport: Transport::Stdio,
        tool: "blob",
        size: 10_000,
        in_flight: 1,
        calls: 3_000,
        counted: 200,
    },
    CallKind {
        name: "1 MB of text",
        transport: Transport::Stdio,
        tool: "blob",
        size: 1_000_000,
        in_flight: 1,
        calls: 150,
        counted: 10,
    },
    CallKind {
        name: "1 MB of dense structure",
        transport: Transport::Stdio,
        tool: "dense",
        size: 1_000_000,
        in_flight: 1,
        calls: 40,
        counted: 1,
    },
];

pub const HTTP_CALL_KINDS: [CallKind; 3] = [
    CallKind {
        name: "HTTP, 100 B, one at a time",
        transport: Transport::Http,
        tool: "echo",
        size: 100,
        in_flight: 1,
        calls: 5_000,
        counted: 300,
    },
    CallKind {
        name: "HTTP, 100 B, 64 in flight",
        transport: Transport::Http,
        tool: "echo",
        size: 100,
        in_flight: 64,
        calls: 12_800,
        counted: 640,
    },
    CallKind {
        name: "HTTP, 1 MB of text",
        transport: Transport::Http,
        tool: "blob",
        size: 1_000_000,
        in_flight: 1,
        calls: 150,
        counted: 10,
    },
];

impl CallKind {
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
            transport: self.transport,
            tool: self.tool.to_owned(),
            size: self.size,
            in_flight: self.in_flight,
            warm_up,
            calls,
            idle_servers: 0,
        }
    }
}

/// Selects the measurements whose name, `part: name`, contains the word; `None` selects all.
pub struct Filter(pub Option<String>);

impl Filter {
    pub fn matches(&self, part: &str, name: &str) -> bool {
        let full_name = format!("{part}: {name}");
        self.0
            .as_ref()
            .is_none_or(|word| full_name.contains(word.as_str()))
    }

    /// Whether the filter is exactly this name.
    fn is_exactly(&self, part: &str, name: &str) -> bool {
        self.0.as_deref() == Some(&format!("{part}: {name}"))
    }

    fn select<'a, T>(
        &self,
        part: &str,
        all: &'a [T],
        name: fn(&T) -> &str,
    ) -> impl Iterator<Item = &'a T> {
        all.iter().filter(move |it| self.matches(part, name(it)))
    }
}

/// Runs the selected parts.
pub fn run(runner: &Runner, report: &mut Report, filter: &Filter) {
    calls::run(runner, report, filter);
    http::run(runner, report, filter);
    instructions::run(runner, report, filter);
    in_process::run(runner, report, filter);
    start::run(runner, report, filter);
    memory::run(runner, report, filter);
    shell::run(runner, report, filter);
    hostile::run(runner, report, filter);
    bombs::run(runner, report, filter);
    growth::run(runner, report, filter);
}

/// Runs the job with the three clients alternately, `repeats` times.
fn run_alternately(
    runner: &Runner,
    baseline: Client,
    job: &Job,
    cores: Cores,
    repeats: usize,
) -> Samples {
    let mut samples = Samples::default();
    for _ in 0..repeats {
        samples.baseline.push(runner.run(baseline, job, cores));
        samples.rmcp.push(runner.run(Client::Rmcp, job, cores));
        samples
            .ours
            .push(runner.run(Client::Switchboard, job, cores));
    }
    samples
}
