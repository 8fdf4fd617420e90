//! Redraws a text in place on a terminal.
//!
//! Invariant: the text never takes more rows than the terminal has, because rows that scrolled away
//! cannot be overwritten.

use super::text::width;
use super::{StdoutState, print};
use crate::charset::Charset;
use crate::failure::Failure;

/// Remembers what was drawn last, to overwrite it with the next text.
#[derive(Debug, Default)]
pub(crate) struct Redraw {
    text: String,
    size: (usize, usize),
    /// The number of terminal rows that the drawn text takes.
    rows: usize,
}

impl Redraw {
    /// Draws a text over the previous one. Does nothing if text and `size` are the same as before.
    /// `size` is the columns and rows of the terminal.
    pub(crate) fn draw(
        &mut self,
        text: &str,
        size: (usize, usize),
    ) -> Result<StdoutState, Failure> {
        if (self.text.as_str(), self.size) == (text, size) {
            return Ok(StdoutState::Open);
        }
        let (shown, rows) = crop_to_screen(text, size);
        let erase = match self.rows {
            0 => String::new(),
            rows => format!("\u{1b}[{rows}A\r\u{1b}[J"),
        };
        text.clone_into(&mut self.text);
        self.size = size;
        self.rows = rows;
        print(&format!("{erase}{}", Charset::current().encode(&shown)))
    }
}

/// Returns the lines that fit on the screen, joined, and the number of rows that they take.
fn crop_to_screen(text: &str, (columns, rows): (usize, usize)) -> (String, usize) {
    // The last row stays empty, because the cursor is there after the text.
    let available_rows = rows.saturating_sub(1).max(1);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let height = |line: &&str| rows_of(line, columns);
    if lines.iter().map(height).sum::<usize>() <= available_rows {
        return (lines.join("\n"), lines.iter().map(height).sum());
    }
    let mut used = 1;
    let kept: Vec<&str> = lines
        .iter()
        .copied()
        .take_while(|line| {
            used += rows_of(line, columns);
            used <= available_rows
        })
        .collect();
    let more = format!("… {} more lines", lines.len() - kept.len());
    let used = kept.iter().map(height).sum::<usize>() + 1;
    let shown: Vec<&str> = kept.into_iter().chain([more.as_str()]).collect();
    (shown.join("\n"), used)
}

fn rows_of(line: &str, columns: usize) -> usize {
    width(&without_colour(line)).div_ceil(columns.max(1)).max(1)
}

/// Removes colour sequences.
fn without_colour(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_wrap_and_colours_take_no_space() {
        let painted = "\u{1b}[31mabcde\u{1b}[0mfghij";
        assert_eq!(crop_to_screen(painted, (10, 24)), (painted.to_owned(), 1));
        assert_eq!(crop_to_screen("abcdefghijk\n\nx", (10, 24)).1, 4);
    }

    #[test]
    fn cropped_lines_are_counted() {
        let (shown, rows) = crop_to_screen("1\n2\n3\n4\n5\n", (10, 4));
        assert_eq!((shown.as_str(), rows), ("1\n2\n… 3 more lines", 3));
        assert_eq!(crop_to_screen("1\n2\n3", (10, 4)).0, "1\n2\n3");
    }
}
