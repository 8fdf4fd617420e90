//! What is wrong with a config, where, and what to do about it.
//!
//! Diagnostics are data; `Display` renders one as the compiler renders its own, without colour.
//! Invariant: no secret and no control character of a file reaches a rendered diagnostic.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use unicode_width::UnicodeWidthStr as _;

use crate::server_name::ServerName;
use crate::text::replace_control_chars;

/// Whether something had to be left out, or merely looks wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something that was asked for on the command line cannot be used.
    Error,
    /// Something looks wrong, or an entry that merely lies around cannot be used.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Origin {
    /// The file; `None` for inline JSON and for entries made in code.
    #[serde(
        serialize_with = "serialize_path",
        skip_serializing_if = "Option::is_none"
    )]
    pub file: Option<PathBuf>,
    /// The line, counted from 1; 0 when the source as a whole is meant.
    pub line: u32,
    /// The column in characters, counted from 1; 0 when the source as a whole is meant.
    pub column: u32,
}

impl Origin {
    /// The origin of an entry that was made in code.
    pub(crate) fn in_code() -> Self {
        Self::of_whole(None)
    }

    /// A source as a whole.
    pub(crate) fn of_whole(file: Option<&Path>) -> Self {
        Self {
            file: file.map(Path::to_path_buf),
            line: 0,
            column: 0,
        }
    }
}

/// A path that is not UTF-8 is still worth showing, as far as it can be shown.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn serialize_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.to_string_lossy()),
        None => serializer.serialize_none(),
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => f.write_str(&replace_control_chars(&file.to_string_lossy()))?,
            None => f.write_str("<inline>")?,
        }
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        Ok(())
    }
}

/// The source line that a diagnostic points into, fit to be printed: literal secrets are starred out,
/// control characters are blanks, and a very long line is cut to the part around the mark.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snippet {
    /// The text to show.
    pub line_text: String,
    /// Where in `line_text` the mark begins, in characters counted from 1.
    pub start_column: u32,
    /// How many characters are marked; at least 1.
    pub len: u32,
}

/// One finding about a config.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, as a lower-case fragment.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The source line it points into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// The server whose entry it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerName>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity)?;
        if let Some(server) = &self.server {
            write!(f, "server `{server}`: ")?;
        }
        f.write_str(&self.message)?;
        let line = self.origin.as_ref().map_or(0, |origin| origin.line);
        let gutter = if line == 0 { 1 } else { line.to_string().len() };
        if let Some(origin) = &self.origin {
            write!(f, "\n{:gutter$}--> {origin}", "")?;
        }
        if let Some(snippet) = &self.snippet {
            write_snippet(f, snippet, line, gutter)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{:gutter$} = hint: {hint}", "")?;
        }
        Ok(())
    }
}

fn write_snippet(
    f: &mut fmt::Formatter<'_>,
    snippet: &Snippet,
    line: u32,
    gutter: usize,
) -> fmt::Result {
    // Counted in letters, shown in columns: some letters take two of them, and marks on letters none.
    let columns = |text: String| text.width();
    let letters = snippet.line_text.chars();
    let before = snippet.start_column.saturating_sub(1) as usize;
    let marked = letters.clone().skip(before).take(snippet.len as usize);
    let marks = "^".repeat(columns(marked.collect()).max(1));
    let before = columns(letters.take(before).collect());
    write!(f, "\n{:gutter$} |", "")?;
    write!(f, "\n{line:gutter$} | {}", snippet.line_text)?;
    write!(f, "\n{:gutter$} | {:before$}{marks}", "", "")
}
