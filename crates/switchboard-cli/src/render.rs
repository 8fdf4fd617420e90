//! Prints results to stdout and everything else to stderr. With `--json`, errors go to both.
//!
//! Invariant: text from servers and files is sanitized before it reaches a terminal. If stdout is
//! closed, no error is printed; only the exit code reports it.

pub(crate) mod diagnostic;
pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod redraw;
pub(crate) mod server_text;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
mod time;

use std::io::{self, Write};

use switchboard_config::{Diagnostic, Severity};

use crate::charset::Charset;
use crate::failure::{Failure, Kind};
use crate::terminal::Terminal;

use style::{Paint, Style};
pub(crate) use time::{format_duration, utc_date, utc_timestamp};

/// Maximum width of prose, even on wider terminals.
const PROSE_COLUMNS: usize = 100;

/// How many messages are printed to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    Normal,
    Verbose,
}

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How output looks, and whether a person can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    pub(crate) format: Format,
    pub(crate) verbosity: Verbosity,
    /// Colours on stdout.
    pub(crate) style: Style,
    /// Colours on stderr.
    pub(crate) stderr_style: Style,
    /// Width of the terminal on stdout; `None` if stdout is no terminal.
    pub(crate) columns: Option<usize>,
    /// Width of the terminal on stderr; `None` if stderr is no terminal.
    pub(crate) stderr_columns: Option<usize>,
    /// Whether stderr is a terminal that can redraw lines.
    pub(crate) shows_progress: bool,
    /// Whether stdin and stderr are terminals, so that questions can be asked.
    pub(crate) can_ask: bool,
    pub(crate) terminal: Terminal,
}

impl Console {
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// The width at which prose on stdout is wrapped, at most [`PROSE_COLUMNS`]. `None` if stdout
    /// is no terminal.
    pub(crate) fn prose_columns(&self) -> Option<usize> {
        self.columns.map(|columns| columns.min(PROSE_COLUMNS))
    }

    /// Prints a result to stdout, ending with a newline. Prints nothing if the result is empty.
    pub(crate) fn print(&self, result: &str) -> Result<(), Failure> {
        let charset = match self.format {
            Format::Json => Charset::Utf8,
            Format::Text => Charset::current(),
        };
        self.print_content(&charset.encode(result))
    }

    /// Prints content of a server to stdout. The content is printed unchanged in every locale.
    #[expect(
        clippy::unused_self,
        reason = "callers print through the console they were given"
    )]
    pub(crate) fn print_content(&self, content: &str) -> Result<(), Failure> {
        if content.is_empty() {
            return Ok(());
        }
        match print(content)? {
            StdoutState::Open => Ok(()),
            StdoutState::Closed => Err(Failure::new(Kind::OutputClosed, "stdout was closed")),
        }
    }

    /// Prints a message to stderr unless `--quiet` was given.
    pub(crate) fn note(&self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            print_stderr(text);
        }
    }

    /// Prints config problems to stderr. `--quiet` suppresses warnings.
    pub(crate) fn diagnose(&self, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            if self.verbosity != Verbosity::Quiet || diagnostic.severity == Severity::Error {
                print_stderr(&diagnostic::render(diagnostic, self.stderr_columns));
            }
        }
    }

    /// Prints a warning and a hint to stderr unless `--quiet` was given.
    pub(crate) fn warn(&self, message: &str, hint: Option<&str>) {
        if self.verbosity != Verbosity::Quiet {
            self.print_labelled("warning: ", Paint::Yellow, message, self.stderr_columns);
            if let Some(hint) = hint {
                self.print_hint(hint, None);
            }
        }
    }

    fn print_labelled(&self, label: &str, paint: Paint, message: &str, columns: Option<usize>) {
        let lines = server_text::quote_message(&format!("{label}{message}"), 0, columns);
        let message = lines.strip_prefix(label).unwrap_or(&lines);
        print_stderr(&format!(
            "{}{message}",
            self.stderr_style.paint(paint, label)
        ));
    }

    /// Prints an error to stderr and, with `--json`, to stdout.
    pub(crate) fn fail(&self, failure: &Failure) {
        let parts = failure.parts();
        if parts.kind == Kind::OutputClosed {
            // If the reader of a pipeline has exited, exit silently as other programs do.
            return;
        }
        if self.is_json() {
            // Ignore: the error is printed to stderr too.
            let _ = self.print(&json::failure(failure));
        }
        if parts.kind == Kind::Interrupted {
            return print_stderr(&parts.message);
        }
        self.print_labelled("error: ", Paint::Red, &parts.message, self.stderr_columns);
        if let Some(hint) = &parts.hint {
            // Do not wrap a command that is meant to be pasted.
            let columns = self
                .stderr_columns
                .filter(|_| !hint.contains("switchboard "));
            self.print_hint(hint, columns);
        }
    }

    /// Prints a hint. All its lines are text of this program.
    fn print_hint(&self, hint: &str, columns: Option<usize>) {
        let label = "hint: ";
        let lines = text::wrap_and_indent(&format!("{label}{hint}"), 2, columns);
        let hint = lines.trim_start().strip_prefix(label).unwrap_or(&lines);
        let label = self.stderr_style.paint(Paint::Cyan, label);
        print_stderr(&format!("{label}{hint}"));
    }
}

/// Whether stdout still accepts output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdoutState {
    Open,
    Closed,
}

/// Prints a result to stdout.
pub(crate) fn print(result: &str) -> Result<StdoutState, Failure> {
    match write_line(io::stdout().lock(), result) {
        Ok(()) => Ok(StdoutState::Open),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(StdoutState::Closed),
        Err(error) => Err(Failure::internal(format!(
            "cannot write the result: {error}"
        ))),
    }
}

/// Prints to stderr, even with `--quiet`.
pub(crate) fn print_stderr(text: &str) {
    // Ignore: if stderr is closed, there is no place to print the error.
    let _ = write_line(io::stderr().lock(), &Charset::current().encode(text));
}

fn write_line(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// Formats a number with its noun: `1 tool`, `2 tools`.
pub(crate) fn format_count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}
