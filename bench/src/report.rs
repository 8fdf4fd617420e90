//! The table: one line per figure, with the clients side by side and the target at the end.

use crate::job::Figures;

/// One figure of all clients. Ratios refer to the first client that has the figure.
pub struct Line {
    pub what: String,
    pub unit: Unit,
    pub baseline: Option<f64>,
    pub rmcp: Option<Measured>,
    pub ours: Option<Measured>,
    pub target: Option<Target>,
    /// The label in the chart, if the line is part of it.
    pub chart_label: Option<&'static str>,
}

#[derive(Clone, Copy)]
pub struct Measured {
    pub value: f64,
    /// Relative to the baseline, or to rmcp if there is no baseline.
    pub ratio: Option<f64>,
}

#[derive(Clone, Copy)]
pub enum Unit {
    Micros,
    Millis,
    PerSecond,
    Instructions,
    Kib,
    Count,
}

/// The target of a figure.
#[derive(Clone, Copy)]
pub enum Target {
    /// In the unit of the line.
    AtMost(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

impl Line {
    /// Medians over all rounds: of the values, and of the ratios within each round, so that a
    /// machine that slows down during the run affects all clients alike.
    pub fn of(what: &str, unit: Unit, figure: &str, samples: &Samples) -> Self {
        let all = [&samples.baseline, &samples.rmcp, &samples.ours];
        let base = all.into_iter().position(|client| !client.is_empty());
        let measured = |index: usize| {
            let own = all[index];
            let base = base.filter(|base| *base < index).map(|base| all[base]);
            let pairs = own.iter().zip(base.into_iter().flatten());
            let ratios = pairs.map(|(own, base)| own.of(figure) / base.of(figure));
            let value = median(own.iter().map(|it| it.of(figure)))?;
            Some(Measured {
                value,
                ratio: median(ratios).filter(|ratio| ratio.is_finite()),
            })
        };
        Self {
            what: what.to_owned(),
            unit,
            baseline: measured(0).map(|baseline| baseline.value),
            rmcp: measured(1),
            ours: measured(2),
            target: None,
            chart_label: None,
        }
    }

    pub fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    pub fn chart_label(mut self, name: &'static str) -> Self {
        self.chart_label = Some(name);
        self
    }

    /// Whether the target is met. `None` if there is no target, or if Switchboard's value or ratio
    /// was not measured.
    pub fn met(&self) -> Option<bool> {
        let ours = self.ours?;
        Some(match self.target? {
            Target::AtMost(bound) => ours.value <= bound,
            Target::RatioAtMost(bound) => ours.ratio? <= bound,
            Target::RatioAtLeast(bound) => ours.ratio? >= bound,
        })
    }
}

/// The figures of one job by client, in the order of measurement.
#[derive(Default)]
pub struct Samples {
    pub baseline: Vec<Figures>,
    pub rmcp: Vec<Figures>,
    pub ours: Vec<Figures>,
}

pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The machine of the measurement.
pub fn machine() -> String {
    let file = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = file("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("", |model| model.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = file("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// Prints lines and keeps them for the chart.
#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
}

impl Report {
    pub fn section(&self, title: &str) {
        self.section_of(title, ["baseline", "rmcp 3.8", "switchboard"]);
    }

    pub fn section_of(&self, title: &str, [base, theirs, ours]: [&str; 3]) {
        println!("\n{title:<42}{base:>12}{theirs:>20}{ours:>20}   target");
    }

    pub fn add(&mut self, line: Line) {
        println!(
            "  {:<40}{:>12}{:>20}{:>20}   {}",
            line.what,
            line.baseline
                .map_or(String::new(), |value| line.unit.show(value)),
            show(line.rmcp, line.unit),
            show(line.ours, line.unit),
            verdict(&line),
        );
        self.lines.push(line);
    }

    /// Prints how many targets are met.
    pub fn summary(&self) {
        let verdicts: Vec<bool> = self.lines.iter().filter_map(Line::met).collect();
        let met = verdicts.iter().filter(|met| **met).count();
        println!("\n{met} of {} targets met", verdicts.len());
    }

    /// Prints that a figure could not be measured on this machine.
    pub fn skip(&self, what: &str, why: &str) {
        println!("  {what}: SKIPPED: {why}");
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
        Target::AtMost(bound) => format!("≤ {}", line.unit.show(bound)),
        Target::RatioAtMost(bound) => format!("≤ {bound}×"),
        Target::RatioAtLeast(bound) => format!("≥ {bound}×"),
    };
    let word = match line.met() {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "",
    };
    format!("{bound:<11} {word}")
}

impl Unit {
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Micros if value >= 10_000.0 => format!("{:.1} ms", value / 1e3),
            Self::Micros => format!("{value:.1} µs"),
            Self::Millis => format!("{value:.1} ms"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Instructions if value >= 1e6 => format!("{:.2} M", value / 1e6),
            Self::Instructions => format!("{:.1} k", value / 1e3),
            Self::Kib if value >= 1024.0 => format!("{:.1} MiB", value / 1024.0),
            Self::Kib => format!("{value:.1} KiB"),
            Self::Count => format!("{value:.0}"),
        }
    }
}
