//! The figures as a bar chart: multiples of the baseline, shorter is better, with a mark at the
//! target.
//!
//! Colours follow the light or dark scheme of the reader; the background is transparent.

use std::fmt::Write;

use crate::report::{Line, Target};

const WIDTH: f64 = 800.0;
const LEFT: f64 = 230.0;
const TOP: f64 = 64.0;
const ROW: f64 = 50.0;
const BAR: f64 = 15.0;
/// Longer bars are cut here and labelled with their value.
const MAX_RATIO: f64 = 4.0;
/// Length of 1× in pixels.
const UNIT: f64 = 120.0;

const STYLE: &str = "<style>\
text{font:13px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px;fill:#59636e}\
.rmcp{fill:#9aa4af}.ours{fill:#1f6feb}.baseline{stroke:#59636e;stroke-dasharray:3 3}\
.target{stroke:#d1570f;stroke-width:3}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.rmcp{fill:#6e7681}\
.ours{fill:#58a6ff}.baseline{stroke:#9198a1}.target{stroke:#f0883e}}</style>";

/// One pair of bars.
struct Row<'a> {
    name: &'a str,
    rmcp: f64,
    ours: f64,
    target: Option<f64>,
}

impl<'a> Row<'a> {
    /// The bars of a line, or `None` if the line is not part of the chart. Inverts a rate, so that
    /// shorter is always better.
    fn of(line: &'a Line) -> Option<Self> {
        let (rmcp, ours) = (line.rmcp?.ratio?, line.ours?.ratio?);
        let (is_rate, target) = match line.target? {
            Target::RatioAtLeast(bound) => (true, Some(1.0 / bound)),
            Target::RatioAtMost(bound) => (false, Some(bound)),
            Target::AtMost(_) => (false, None),
        };
        let to_cost = |ratio: f64| if is_rate { 1.0 / ratio } else { ratio };
        Some(Self {
            name: line.chart_label?,
            rmcp: to_cost(rmcp),
            ours: to_cost(ours),
            target,
        })
    }
}

/// Draws the lines that are part of the chart as SVG.
pub fn draw(lines: &[Line]) -> String {
    let rows: Vec<Row<'_>> = lines.iter().filter_map(Row::of).collect();
    let height = TOP + ROW * rows.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Cost of a call as a multiple of a hand-written client's\">\n{STYLE}\n"
    );
    draw_legend(&mut svg);
    draw_scale(&mut svg, height);
    for (index, row) in rows.iter().enumerate() {
        draw_row(&mut svg, TOP + ROW * index as f64, row);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_legend(svg: &mut String) {
    let y = 20.0;
    text(
        svg,
        LEFT,
        y,
        "",
        "cost as a multiple of a hand-written client; shorter is better",
    );
    for (x, class, name) in [(12.0, "rmcp", "rmcp 3.8"), (94.0, "ours", "Switchboard")] {
        bar(svg, x, y - 10.0, 12.0, class);
        text(svg, x + 17.0, y, "small", name);
    }
    mark(svg, 700.0, y - 14.0);
    text(svg, 708.0, y, "small", "target");
}

fn draw_scale(svg: &mut String, height: f64) {
    for times in 0..=MAX_RATIO as u32 {
        let x = LEFT + UNIT * f64::from(times);
        let (name, class) = match times {
            1 => ("baseline".to_owned(), "baseline"),
            _ => (format!("{times}×"), ""),
        };
        let _ = writeln!(
            svg,
            "<text class=\"small\" x=\"{x}\" y=\"48\" text-anchor=\"middle\">{name}</text>"
        );
        if !class.is_empty() {
            let bottom = height - 8.0;
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"54\" y2=\"{bottom}\"/>"
            );
        }
    }
}

fn draw_row(svg: &mut String, y: f64, row: &Row<'_>) {
    text(svg, 12.0, y + BAR + 5.0, "", row.name);
    for (place, class, times) in [(0.0, "rmcp", row.rmcp), (1.0, "ours", row.ours)] {
        let (y, length) = (y + place * (BAR + 2.0), UNIT * times.min(MAX_RATIO));
        bar(svg, LEFT, y, length, class);
        let cut = if times > MAX_RATIO { " →" } else { "" };
        let label = format!("{times:.1}×{cut}");
        let label_start = match row.target {
            Some(target) if class == "ours" => length.max(UNIT * target),
            _ => length,
        };
        text(svg, LEFT + label_start + 8.0, y + 12.0, "small", &label);
    }
    if let Some(target) = row.target {
        mark(svg, LEFT + UNIT * target, y + BAR);
    }
}

/// Marks the target of a bar.
fn mark(svg: &mut String, x: f64, y: f64) {
    let bottom = y + BAR + 5.0;
    let _ = writeln!(
        svg,
        "<line class=\"target\" x1=\"{x:.0}\" x2=\"{x:.0}\" y1=\"{y}\" y2=\"{bottom}\"/>"
    );
}

fn bar(svg: &mut String, x: f64, y: f64, length: f64, class: &str) {
    let height = BAR.min(length.max(1.0));
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{length:.0}\" height=\"{height}\" rx=\"2\"/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, content: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.0}\" y=\"{y}\">{content}</text>"
    );
}
