//! Tables with aligned columns, and lines of text between the rows.
//!
//! On a narrow terminal one column shrinks: it is truncated or wrapped. Before it shrinks to less
//! than [`PREFERRED`], droppable columns are omitted. Invariant: a row fits the terminal, unless
//! the remaining columns leave less than [`MIN_WIDTH`] for the shrinkable one, or a wrapped word is
//! too long for its column.

use super::style::{Paint, Style};
use super::text::{truncate, width, wrap};

/// The space between two columns.
const GAP: &str = "  ";

/// Minimum width of the shrinkable column.
const MIN_WIDTH: usize = 12;

/// If the shrinkable column would get fewer columns than this, other columns are dropped first.
const PREFERRED: usize = 24;

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
    is_number: bool,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            paint: Paint::Plain,
            is_number: false,
        }
    }

    pub(crate) fn paint(mut self, paint: Paint) -> Self {
        self.paint = paint;
        self
    }

    /// Aligns the cell to the right.
    pub(crate) fn number(mut self) -> Self {
        self.is_number = true;
        self
    }
}

/// What happens to text that does not fit into the shrinkable column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Truncate,
    Wrap,
}

#[derive(Debug)]
enum Row {
    Cells(Vec<Cell>),
    Text(String),
}

/// Rows of cells.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Row>,
    /// The index of the column that shrinks.
    shrinkable: usize,
    overflow: Overflow,
    indent: usize,
    /// The indexes of the columns that may be dropped. The first one is dropped first.
    droppable: &'static [usize],
}

/// The width of each column; `None` if the column is dropped.
type Widths = Vec<Option<usize>>;

impl Table {
    /// `shrinkable` is the index of the column that shrinks.
    pub(crate) fn new(shrinkable: usize, overflow: Overflow) -> Self {
        Self {
            rows: Vec::new(),
            shrinkable,
            overflow,
            indent: 0,
            droppable: &[],
        }
    }

    /// Allows dropping these columns on a narrow terminal. The first one is dropped first.
    pub(crate) fn droppable(mut self, columns: &'static [usize]) -> Self {
        self.droppable = columns;
        self
    }

    pub(crate) fn indent(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row::Cells(cells));
    }

    /// Adds text below the rows added so far. The text is not aligned to the columns.
    pub(crate) fn text(&mut self, text: String) {
        if !text.is_empty() {
            self.rows.push(Row::Text(text));
        }
    }

    pub(crate) fn render(&self, columns: Option<usize>, style: Style) -> String {
        let widths = self.widths(columns);
        let mut out = String::new();
        for row in &self.rows {
            match row {
                Row::Text(text) => {
                    out.push_str(text);
                    out.push('\n');
                }
                Row::Cells(cells) => self.render_row(cells, &widths, style, &mut out),
            }
        }
        out
    }

    fn widths(&self, columns: Option<usize>) -> Widths {
        let mut widths = Vec::new();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            widths.resize(widths.len().max(cells.len()), Some(0));
            for (widest, cell) in widths.iter_mut().zip(cells) {
                *widest = (*widest).max(Some(width(&cell.text)));
            }
        }
        let Some(columns) = columns else {
            return widths;
        };
        let shrinkable = widths.get(self.shrinkable).copied().flatten();
        let excess_over =
            |kept: usize| shrinkable.map_or(0, |natural| natural.saturating_sub(kept));
        for column in self.droppable {
            if self.total(&widths) - excess_over(PREFERRED) <= columns {
                break;
            }
            if let Some(width) = widths.get_mut(*column) {
                *width = None;
            }
        }
        let excess = self.total(&widths).saturating_sub(columns);
        if let Some(Some(shrinkable)) = widths.get_mut(self.shrinkable) {
            *shrinkable -= excess.min(excess_over(MIN_WIDTH));
        }
        widths
    }

    /// The width of a row.
    fn total(&self, widths: &Widths) -> usize {
        let shown = widths.iter().flatten();
        let gaps = GAP.len() * shown.clone().count().saturating_sub(1);
        self.indent + gaps + shown.sum::<usize>()
    }

    fn render_row(&self, cells: &[Cell], widths: &Widths, style: Style, out: &mut String) {
        let shown = cells.iter().zip(widths).enumerate();
        let fitted: Vec<(&Cell, usize, Vec<String>)> = shown
            .filter_map(|(column, (cell, width))| {
                let width = (*width)?;
                Some((cell, width, self.fit(column, &cell.text, width)))
            })
            .collect();
        let height = fitted.iter().map(|(_, _, lines)| lines.len()).max();
        for line in 0..height.unwrap_or_default() {
            let mut spaces = self.indent;
            for (cell, columns, lines) in &fitted {
                let text = lines.get(line).map_or("", String::as_str);
                let padding = columns.saturating_sub(width(text));
                let (before, after) = if cell.is_number {
                    (padding, 0)
                } else {
                    (0, padding)
                };
                // Print spaces only before text, so that lines have no trailing spaces.
                spaces += before;
                if !text.is_empty() {
                    out.push_str(&" ".repeat(spaces));
                    out.push_str(&style.paint(cell.paint, text));
                    spaces = 0;
                }
                spaces += after + GAP.len();
            }
            out.push('\n');
        }
    }

    fn fit(&self, column: usize, text: &str, width: usize) -> Vec<String> {
        match self.overflow {
            _ if column != self.shrinkable => vec![text.to_owned()],
            Overflow::Truncate => vec![truncate(text, width).into_owned()],
            Overflow::Wrap => wrap(text, Some(width)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(overflow: Overflow) -> Table {
        let mut table = Table::new(1, overflow).indent(2);
        table.row(vec![
            Cell::new("a"),
            Cell::new("some words here"),
            Cell::new("7").number(),
        ]);
        table.text("between".to_owned());
        table.row(vec![
            Cell::new("long"),
            Cell::new(""),
            Cell::new("1234").number(),
        ]);
        table
    }

    #[test]
    fn columns_align_without_trailing_spaces() {
        assert_eq!(
            table(Overflow::Truncate).render(None, Style::Plain),
            "  a     some words here     7\nbetween\n  long                   1234\n"
        );
    }

    #[test]
    fn one_column_shrinks() {
        assert_eq!(
            table(Overflow::Truncate).render(Some(26), Style::Plain),
            "  a     some words…      7\nbetween\n  long                1234\n"
        );
        assert_eq!(
            table(Overflow::Wrap).render(Some(26), Style::Plain),
            "  a     some words       7\n        here\nbetween\n  long                1234\n"
        );
    }

    #[test]
    fn droppable_columns_are_dropped_in_order() {
        let mut table = Table::new(0, Overflow::Truncate).droppable(&[2, 1]);
        table.row(
            ["a long name of a server", "project", "stdio", "7"]
                .map(Cell::new)
                .into(),
        );
        let lines = [40, 32, 26, 22, 12].map(|columns| table.render(Some(columns), Style::Plain));
        assert_eq!(
            lines,
            [
                "a long name of a server  project  7\n",
                "a long name of a server  7\n",
                "a long name of a server  7\n",
                "a long name of a s…  7\n",
                "a long name…  7\n",
            ]
        );
    }

    #[test]
    fn width_counts_terminal_cells() {
        let mut table = Table::new(0, Overflow::Truncate);
        for name in ["日本語", "e\u{301}tude", "👩‍🔬 lab", "plain"] {
            table.row(vec![Cell::new(name), Cell::new("x")]);
        }
        let rendered = table.render(None, Style::Plain);
        let before = |line: &str| width(line.trim_end_matches('x'));
        assert_eq!(rendered.lines().map(before).collect::<Vec<_>>(), [8; 4]);
    }

    #[test]
    fn colour_takes_no_width() {
        let mut table = Table::new(0, Overflow::Truncate);
        table.row(vec![Cell::new("ab").paint(Paint::Red), Cell::new("c")]);
        table.row(vec![Cell::new("abcd"), Cell::new("d")]);
        assert_eq!(
            table.render(None, Style::Coloured),
            "\u{1b}[31mab\u{1b}[0m    c\nabcd  d\n"
        );
    }
}
