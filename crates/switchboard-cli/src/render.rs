//! What people and programs see.
//!
//! Results go to stdout, everything else to stderr. Invariant: text that did not come from us is
//! cleaned before a terminal sees it, and a reader who hangs up is told by the exit code alone.

pub(crate) mod diagnostic;
pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod redraw;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
mod time;

use std::io::{self, Write};

use switchboard_config::{Diagnostic, Severity};

use crate::failure::{Failure, Kind};
use crate::terminal::Terminal;
use style::{Paint, Style};
pub(crate) use time::{format_duration, utc_date, utc_timestamp};

/// Lines of prose are not made longer than this, however wide the terminal.
const PROSE_COLUMNS: usize = 100;

/// How much is said besides results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Results, and errors that there are none.
    Quiet,
    Normal,
    Verbose,
}

/// Whether results are text or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Where output goes and how it looks there.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    pub(crate) format: Format,
    pub(crate) verbosity: Verbosity,
    /// For results.
    pub(crate) style: Style,
    /// For everything else.
    pub(crate) stderr_style: Style,
    /// The columns of the terminal that results go to; `None` if they go elsewhere.
    pub(crate) columns: Option<usize>,
    /// The same of stderr.
    pub(crate) stderr_columns: Option<usize>,
    /// Whether a person may be watching stderr, so that moving lines make sense there.
    pub(crate) shows_progress: bool,
    /// Whether a person can be asked.
    pub(crate) can_ask: bool,
    /// The terminal that questions are asked at.
    pub(crate) terminal: Terminal,
}

impl Console {
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// How long lines of prose may be.
    pub(crate) fn prose_columns(&self) -> Option<usize> {
        self.columns.map(|columns| columns.min(PROSE_COLUMNS))
    }

    /// Prints a result; a line end is added where there is none. Of an empty one nothing is printed.
    #[expect(
        clippy::unused_self,
        reason = "results go to the console, wherever that is"
    )]
    pub(crate) fn print(&self, result: &str) -> Result<(), Failure> {
        if result.is_empty() {
            return Ok(());
        }
        match print(result)? {
            StdoutState::Open => Ok(()),
            StdoutState::Closed => Err(Failure::new(Kind::OutputClosed, "nobody reads the result")),
        }
    }

    /// Says something besides results.
    pub(crate) fn note(&self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            print_stderr(text);
        }
    }

    /// Tells what is wrong with the config. What merely looks wrong is kept from those who want quiet.
    pub(crate) fn diagnose(&self, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            if self.verbosity != Verbosity::Quiet || diagnostic.severity == Severity::Error {
                print_stderr(&diagnostic::render(diagnostic, self.stderr_columns));
            }
        }
    }

    /// Tells what looks wrong with what was asked for, and was done all the same.
    pub(crate) fn warn(&self, message: &str, hint: Option<&str>) {
        if self.verbosity != Verbosity::Quiet {
            self.print_labelled("warning: ", Paint::Yellow, message, self.stderr_columns);
            if let Some(hint) = hint {
                self.print_labelled("hint: ", Paint::Cyan, hint, None);
            }
        }
    }

    fn print_labelled(&self, label: &str, paint: Paint, message: &str, columns: Option<usize>) {
        let lines = text::block(&format!("{label}{message}"), 2, columns);
        let message = lines.trim_start().strip_prefix(label).unwrap_or(&lines);
        print_stderr(&format!(
            "{}{message}",
            self.stderr_style.paint(paint, label)
        ));
    }

    /// Tells why there is no result.
    pub(crate) fn fail(&self, failure: &Failure) {
        let parts = failure.parts();
        if parts.kind == Kind::OutputClosed {
            // As other programs do in a pipe whose reader had enough.
            return;
        }
        if self.is_json() {
            // If stdout is gone as well there is nobody left to tell.
            let _ = self.print(&json::failure(failure));
        }
        if parts.kind == Kind::Interrupted {
            return print_stderr(&parts.message);
        }
        self.print_labelled("error: ", Paint::Red, &parts.message, self.stderr_columns);
        if let Some(hint) = &parts.hint {
            // What is there to paste must stay whole.
            let columns = self
                .stderr_columns
                .filter(|_| !hint.contains("switchboard "));
            self.print_labelled("hint: ", Paint::Cyan, hint, columns);
        }
    }
}

/// Whether there is still somebody to print for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdoutState {
    Open,
    Closed,
}

/// Prints a result, and says whether there is a sense in printing more.
pub(crate) fn print(result: &str) -> Result<StdoutState, Failure> {
    match write_line(io::stdout().lock(), result) {
        Ok(()) => Ok(StdoutState::Open),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(StdoutState::Closed),
        Err(error) => Err(Failure::internal(format!(
            "cannot write the result: {error}"
        ))),
    }
}

pub(crate) fn print_stderr(text: &str) {
    // Without a stderr there is no place to print_labelled about that.
    let _ = write_line(io::stderr().lock(), text);
}

fn write_line(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// `1 tool`, `2 tools`
pub(crate) fn count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}
