//! The table: one line per figure, the clients side by side, the target at the end.

use crate::job::Figures;

/// One figure of all clients. The first client that has it is what ratios are taken to.
pub struct Line {
    pub what: String,
    pub unit: Unit,
    pub floor: Option<f64>,
    pub rmcp: Option<Measured>,
    pub ours: Option<Measured>,
    pub target: Option<Target>,
}

#[derive(Clone, Copy)]
pub struct Measured {
    pub value: f64,
    /// To the floor, or to rmcp where there is no floor.
    pub ratio: Option<f64>,
}

#[derive(Clone, Copy)]
pub enum Unit {
    Micros,
    PerSecond,
    Instructions,
}

/// What has to be reached.
#[derive(Clone, Copy)]
pub enum Target {
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

impl Line {
    /// Medians over repeats: of the values, and of the ratios within each repeat, so that a machine
    /// that gets slower in the middle favours nobody.
    pub fn of(what: &str, unit: Unit, figure: &str, samples: &Samples) -> Self {
        let measured = |own: &[Figures]| {
            let ratios = own.iter().zip(&samples.floor);
            (!own.is_empty()).then(|| Measured {
                value: median_of(own, figure),
                ratio: median(ratios.map(|(own, floor)| own.of(figure) / floor.of(figure))),
            })
        };
        Self {
            what: what.to_owned(),
            unit,
            floor: median(samples.floor.iter().map(|it| it.of(figure))),
            rmcp: measured(&samples.rmcp),
            ours: measured(&samples.ours),
            target: None,
        }
    }

    pub fn target(mut self, target: Option<Target>) -> Self {
        self.target = target;
        self
    }

    /// Whether the target is met; nothing where there is none.
    pub fn met(&self) -> Option<bool> {
        let ours = self.ours?;
        Some(match self.target? {
            Target::RatioAtMost(bound) => ours.ratio? <= bound,
            Target::RatioAtLeast(bound) => ours.ratio? >= bound,
        })
    }
}

/// The figures of one job by client, in the order they were taken.
#[derive(Default)]
pub struct Samples {
    pub floor: Vec<Figures>,
    pub rmcp: Vec<Figures>,
    pub ours: Vec<Figures>,
}

fn median_of(samples: &[Figures], figure: &str) -> f64 {
    median(samples.iter().map(|it| it.of(figure))).expect("at least one repeat")
}

pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Prints lines as they come, and keeps them for the picture.
#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
}

impl Report {
    pub fn section(&self, title: &str) {
        println!(
            "\n{title:<42}{:>12}{:>20}{:>20}   to reach",
            "floor", "rmcp 3.8", "switchboard"
        );
    }

    pub fn add(&mut self, line: Line) {
        println!(
            "  {:<40}{:>12}{:>20}{:>20}   {}",
            line.what,
            line.floor
                .map_or(String::new(), |value| line.unit.show(value)),
            show(line.rmcp, line.unit),
            show(line.ours, line.unit),
            verdict(&line),
        );
        self.lines.push(line);
    }

    /// Something that could not be measured here.
    pub fn skip(&self, what: &str, why: &str) {
        println!("  {what}: SKIPPED, NOT MEASURED: {why}");
    }
}

fn show(measured: Option<Measured>, unit: Unit) -> String {
    let Some(measured) = measured else {
        return String::new();
    };
    let ratio = measured.ratio.map(|ratio| format!("  {ratio:>5.2}×"));
    unit.show(measured.value) + &ratio.unwrap_or_default()
}

fn verdict(line: &Line) -> String {
    let Some(target) = line.target else {
        return String::new();
    };
    let bound = match target {
        Target::RatioAtMost(bound) => format!("≤ {bound}×"),
        Target::RatioAtLeast(bound) => format!("≥ {bound}×"),
    };
    let word = match line.met() {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "",
    };
    format!("{bound:<8} {word}")
}

impl Unit {
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Micros if value >= 10_000.0 => format!("{:.1} ms", value / 1e3),
            Self::Micros => format!("{value:.1} µs"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Instructions if value >= 1e6 => format!("{:.2} M", value / 1e6),
            Self::Instructions => format!("{:.1} k", value / 1e3),
        }
    }
}
