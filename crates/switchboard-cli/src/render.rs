//! What people and programs see.
//!
//! Results go to stdout, everything else to stderr. Invariant: text that did not come from us is
//! cleaned before a terminal sees it, and a reader who hangs up is told by the exit code alone.

pub(crate) mod finding;
pub(crate) mod json;
pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use switchboard_config::{Diagnostic, Severity};

use crate::failure::{Failure, Kind};
use crate::terminal::Terminal;
use crate::trace::utc;
use style::{Paint, Style};

/// Lines of prose are not made longer than this, however wide the terminal.
const PROSE_COLUMNS: usize = 100;

/// How much is said besides results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Talk {
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
pub(crate) struct Screen {
    pub(crate) format: Format,
    pub(crate) talk: Talk,
    /// For results.
    pub(crate) style: Style,
    /// For everything else.
    pub(crate) side_style: Style,
    /// The columns of the terminal that results go to; `None` if they go elsewhere.
    pub(crate) columns: Option<usize>,
    /// The same of stderr.
    pub(crate) side_columns: Option<usize>,
    /// Whether a person may be watching stderr, so that moving lines make sense there.
    pub(crate) is_watched: bool,
    /// Whether a person can be asked.
    pub(crate) can_ask: bool,
    /// The terminal that questions are asked at.
    pub(crate) terminal: Terminal,
}

impl Screen {
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
        reason = "results go to the screen, wherever that is"
    )]
    pub(crate) fn print(&self, result: &str) -> Result<(), Failure> {
        if result.is_empty() {
            return Ok(());
        }
        match print(result)? {
            Reader::Present => Ok(()),
            Reader::Gone => Err(Failure::new(Kind::Unread, "nobody reads the result")),
        }
    }

    /// Says something besides results.
    pub(crate) fn say(&self, text: &str) {
        if self.talk != Talk::Quiet {
            say_anyway(text);
        }
    }

    /// Tells what is wrong with the config. What merely looks wrong is kept from those who want quiet.
    pub(crate) fn diagnose(&self, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            if self.talk != Talk::Quiet || diagnostic.severity == Severity::Error {
                say_anyway(&finding::render(diagnostic, self.side_columns));
            }
        }
    }

    /// Tells what looks wrong with what was asked for, and was done all the same.
    pub(crate) fn warn(&self, message: &str, hint: Option<&str>) {
        if self.talk != Talk::Quiet {
            self.complain("warning: ", Paint::Yellow, message, self.side_columns);
            if let Some(hint) = hint {
                self.complain("hint: ", Paint::Cyan, hint, None);
            }
        }
    }

    fn complain(&self, label: &str, paint: Paint, message: &str, columns: Option<usize>) {
        let lines = text::block(&format!("{label}{message}"), 2, columns);
        let message = lines.trim_start().strip_prefix(label).unwrap_or(&lines);
        say_anyway(&format!("{}{message}", self.side_style.paint(paint, label)));
    }

    /// Tells why there is no result.
    pub(crate) fn fail(&self, failure: &Failure) {
        let parts = failure.parts();
        if parts.kind == Kind::Unread {
            // As other programs do in a pipe whose reader had enough.
            return;
        }
        if self.is_json() {
            // If stdout is gone as well there is nobody left to tell.
            let _ = self.print(&json::failure(failure));
        }
        if parts.kind == Kind::Interrupted {
            return say_anyway(&parts.message);
        }
        self.complain("error: ", Paint::Red, &parts.message, self.side_columns);
        if let Some(hint) = &parts.hint {
            // What is there to paste must stay whole.
            let columns = self.side_columns.filter(|_| !hint.contains("switchboard "));
            self.complain("hint: ", Paint::Cyan, hint, columns);
        }
    }
}

/// Whether there is still somebody to print for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Present,
    Gone,
}

/// Prints a result, and says whether there is a sense in printing more.
pub(crate) fn print(result: &str) -> Result<Reader, Failure> {
    match write_line(io::stdout().lock(), result) {
        Ok(()) => Ok(Reader::Present),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::internal(format!(
            "cannot write the result: {error}"
        ))),
    }
}

pub(crate) fn say_anyway(text: &str) {
    // Without a stderr there is no place to complain about that.
    let _ = write_line(io::stderr().lock(), text);
}

fn write_line(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// A time as people say it.
pub(crate) fn time(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// `1 tool`, `2 tools`
pub(crate) fn count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

/// `2026-11-15`
pub(crate) fn day(time: SystemTime) -> String {
    utc(time).chars().take(10).collect()
}
