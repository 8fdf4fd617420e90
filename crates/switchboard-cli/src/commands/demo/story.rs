//! The demo as it is told: lines for people while it runs, or one JSON document at its end.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::{Console, format_duration, json, text};

/// Whether something went as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Good,
    Bad,
}

#[derive(Debug)]
pub(super) struct Story<'a> {
    console: &'a Console,
    began: Instant,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    #[serde(rename = "step")]
    name: &'static str,
    ok: bool,
    /// What came of it, a line each.
    outcome: Vec<String>,
    elapsed_ms: u64,
    #[serde(skip)]
    began: Instant,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    steps: &'a [Step],
    ok: bool,
    elapsed_ms: u64,
}

impl<'a> Story<'a> {
    pub(super) fn begin(console: &'a Console) -> Result<Self, Failure> {
        let story = Self {
            console,
            began: Instant::now(),
            steps: Vec::new(),
        };
        let title = console.style.paint(Paint::Bold, "Switchboard");
        story.print(&format!(
            "{title}: one host, two servers, nothing to configure"
        ))?;
        Ok(story)
    }

    /// Begins a step.
    pub(super) fn step(&mut self, name: &'static str, title: &str) -> Result<(), Failure> {
        self.steps.push(Step {
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

    /// A line on the way.
    pub(super) fn detail(&self, line: &str) -> Result<(), Failure> {
        let line = self.console.style.paint(Paint::Dim, line);
        self.print(&format!("     {line}"))
    }

    /// What came of the step.
    pub(super) fn outcome(&mut self, mark: Mark, line: &str) -> Result<(), Failure> {
        self.note(mark, line);
        let (symbol, paint) = match mark {
            Mark::Good => ("✓", Paint::Green),
            Mark::Bad => ("✗", Paint::Red),
        };
        let lines = text::block(line, 5, self.console.prose_columns());
        let symbol = self.console.style.paint(paint, symbol);
        self.print(&format!("   {symbol} {}", lines.trim_start()))
    }

    /// As [`Self::outcome`], for programs only.
    pub(super) fn note(&mut self, mark: Mark, line: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.ok &= mark == Mark::Good;
            step.outcome.push(line.to_owned());
            step.elapsed_ms = millis(step.began.elapsed());
        }
    }

    pub(super) fn end(self) -> Result<Exit, Failure> {
        let elapsed = self.began.elapsed();
        let ok = self.steps.iter().all(|step| step.ok);
        if self.console.is_json() {
            self.console.print(&json::pretty(&Told {
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

/// Times of calls, which may take no millisecond.
pub(super) fn short_time(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        _ => crate::render::format_duration(time),
    }
}
