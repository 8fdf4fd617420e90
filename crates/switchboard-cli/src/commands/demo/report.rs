//! Output of the demo: lines while it runs, or one JSON document at the end.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::{Console, format_duration, json, text};

/// Whether an output line reports a success or a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepMark {
    Good,
    Bad,
}

#[derive(Debug)]
pub(super) struct DemoReport<'a> {
    console: &'a Console,
    began: Instant,
    steps: Vec<DemoStep>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DemoStep {
    #[serde(rename = "step")]
    name: &'static str,
    ok: bool,
    outcome: Vec<String>,
    elapsed_ms: u64,
    #[serde(skip)]
    began: Instant,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DemoJson<'a> {
    steps: &'a [DemoStep],
    ok: bool,
    elapsed_ms: u64,
}

impl<'a> DemoReport<'a> {
    pub(super) fn begin(console: &'a Console) -> Result<Self, Failure> {
        let report = Self {
            console,
            began: Instant::now(),
            steps: Vec::new(),
        };
        let title = console.style.paint(Paint::Bold, "Switchboard");
        report.print(&format!(
            "{title}: one host, two servers, nothing to configure"
        ))?;
        Ok(report)
    }

    /// Starts a step of the demo and prints the heading of the step.
    pub(super) fn step(&mut self, name: &'static str, title: &str) -> Result<(), Failure> {
        self.steps.push(DemoStep {
            name,
            ok: true,
            outcome: Vec::new(),
            elapsed_ms: 0,
            began: Instant::now(),
        });
        let number = format!("{}.", self.steps.len());
        let heading = self
            .console
            .style
            .paint(Paint::Bold, &format!("{number} {title}"));
        self.print(&format!("\n{heading}"))
    }

    /// Prints an intermediate line, which is not part of the JSON output.
    pub(super) fn detail(&self, line: &str) -> Result<(), Failure> {
        let line = self.console.style.paint(Paint::Dim, line);
        self.print(&format!("     {line}"))
    }

    /// Prints an outcome of the current step and records it for the JSON output.
    pub(super) fn outcome(&mut self, mark: StepMark, line: &str) -> Result<(), Failure> {
        self.note(mark, line);
        let (symbol, paint) = match mark {
            StepMark::Good => ("✓", Paint::Green),
            StepMark::Bad => ("✗", Paint::Red),
        };
        let lines = text::wrap_and_indent(line, 5, self.console.prose_columns());
        let symbol = self.console.style.paint(paint, symbol);
        self.print(&format!("   {symbol} {}", lines.trim_start()))
    }

    /// Records an outcome for the JSON output without printing it.
    pub(super) fn note(&mut self, mark: StepMark, line: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.ok &= mark == StepMark::Good;
            step.outcome.push(line.to_owned());
            step.elapsed_ms = millis(step.began.elapsed());
        }
    }

    pub(super) fn end(self) -> Result<Exit, Failure> {
        let elapsed = self.began.elapsed();
        let ok = self.steps.iter().all(|step| step.ok);
        if self.console.is_json() {
            self.console.print(&json::pretty(&DemoJson {
                steps: &self.steps,
                ok,
                elapsed_ms: millis(elapsed),
            }))?;
        } else {
            self.print(&format!("\nDone in {}.", format_duration(elapsed)))?;
        }
        Ok(if ok { Exit::Ok } else { Exit::Internal })
    }

    fn print(&self, line: &str) -> Result<(), Failure> {
        if self.console.is_json() {
            return Ok(());
        }
        self.console.print(line)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a duration. Durations shorter than a millisecond are formatted in microseconds.
pub(super) fn short_time(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        _ => crate::render::format_duration(time),
    }
}
