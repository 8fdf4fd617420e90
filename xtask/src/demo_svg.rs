//! Renders the output of `switchboard demo` as an SVG for the README.

use std::fmt::Write as _;
use std::fs;

use crate::steps::{Failure, Steps, cargo};

const STEP: &str = "demo-svg";
const FILE: &str = "docs/demo.svg";

// In pixels.
const LINE_HEIGHT: usize = 18;
const CHAR_WIDTH: usize = 8;
const MARGIN: usize = 16;

/// Runs the demo and writes its output to `docs/demo.svg`.
pub(crate) fn run(steps: &mut Steps) -> Result<(), Failure> {
    let arguments = ["run", "--quiet", "--release", "--", "demo"];
    steps.run_work(STEP, FILE, || {
        let failed = |error: std::io::Error| Failure::Step {
            step: STEP,
            reason: error.to_string(),
        };
        let demo = cargo(&arguments)
            .env("NO_COLOR", "1")
            .output()
            .map_err(failed)?;
        fs::write(FILE, render_svg(&String::from_utf8_lossy(&demo.stdout))).map_err(failed)
    })
}

fn render_svg(text: &str) -> String {
    let lines: Vec<_> = std::iter::once("$ switchboard demo")
        .chain(text.trim_end().lines())
        .collect();
    let columns = lines.iter().map(|line| line.chars().count()).max();
    let width = columns.unwrap_or(0) * CHAR_WIDTH + 2 * MARGIN;
    let height = lines.len() * LINE_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f27\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\" \
         xml:space=\"preserve\">\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + (number + 1) * LINE_HEIGHT - 5;
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\" textLength=\"{}\" fill=\"{}\">{}</text>",
            line.chars().count() * CHAR_WIDTH,
            colour(line),
            escape(line)
        );
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The colour of a line. The command line, lines that begin with a check mark, and numbered
/// headings differ from the rest.
fn colour(line: &str) -> &'static str {
    match line.trim_start().chars().next() {
        Some('$') => "#8ab4f8",
        Some('✓') => "#8fd694",
        Some(first) if first.is_ascii_digit() && !line.starts_with(' ') => "#f2d388",
        _ => "#d5d9e0",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_output_is_escaped() {
        let svg = render_svg("✓ a < b & c > d\n</text>");
        assert!(svg.contains("✓ a &lt; b &amp; c &gt; d"));
        assert!(svg.contains("&lt;/text&gt;"));
    }
}
