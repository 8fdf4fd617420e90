//! Problems in config files: severity, message, position, source snippet and hint.
//!
//! `Display` renders a diagnostic in the style of rustc, without colour. Invariant: a rendered
//! diagnostic contains no secret and no control character of the file.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use unicode_width::UnicodeWidthStr as _;

use crate::server_name::ServerName;
use crate::text::replace_control_chars;

/// How serious a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A settings file, a file to edit, or a file or entry given on the command line cannot be
    /// used.
    Error,
    /// A config file or entry that was not given on the command line cannot be used, or something
    /// looks like a mistake.
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

/// A position in a config source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SourcePos {
    /// The file; `None` for inline JSON and for entries defined in code.
    #[serde(
        serialize_with = "serialize_path",
        skip_serializing_if = "Option::is_none"
    )]
    pub file: Option<PathBuf>,
    /// The line, starting at 1; 0 for the source as a whole.
    pub line: u32,
    /// The column in characters, starting at 1; 0 for the source as a whole.
    pub column: u32,
}

impl SourcePos {
    /// The position of an entry that the embedding program defined.
    pub(crate) fn defined_in_code() -> Self {
        Self::whole_file(None)
    }

    /// The position that stands for the source as a whole.
    pub(crate) fn whole_file(file: Option<&Path>) -> Self {
        Self {
            file: file.map(Path::to_path_buf),
            line: 0,
            column: 0,
        }
    }
}

/// Serializes a path that is not UTF-8 lossily instead of failing.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn serialize_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.to_string_lossy()),
        None => serializer.serialize_none(),
    }
}

impl fmt::Display for SourcePos {
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

/// The source line of a diagnostic, safe to print: secrets are replaced by stars and control
/// characters by spaces. Only the part of a long line around the marked text is included.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snippet {
    /// The text to show.
    pub line_text: String,
    /// First marked character of `line_text`, starting at 1.
    pub start_column: u32,
    /// Number of marked characters; at least 1.
    pub len: u32,
}

/// One problem in a config.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How serious the problem is.
    pub severity: Severity,
    /// The problem, as a lower-case fragment.
    pub message: String,
    /// A command or action to try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The position of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<SourcePos>,
    /// The source line at `origin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// The server whose entry has the problem.
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
            fmt_snippet(f, snippet, line, gutter)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{:gutter$} = hint: {hint}", "")?;
        }
        Ok(())
    }
}

fn fmt_snippet(
    f: &mut fmt::Formatter<'_>,
    snippet: &Snippet,
    line: u32,
    gutter: usize,
) -> fmt::Result {
    // The snippet counts characters, a terminal counts columns: some characters take two columns,
    // combining ones none.
    let columns = |text: String| text.width();
    let characters = snippet.line_text.chars();
    let before = snippet.start_column.saturating_sub(1) as usize;
    let marked = characters.clone().skip(before).take(snippet.len as usize);
    let marks = "^".repeat(columns(marked.collect()).max(1));
    let before = columns(characters.take(before).collect());
    write!(f, "\n{:gutter$} |", "")?;
    write!(f, "\n{line:gutter$} | {}", snippet.line_text)?;
    write!(f, "\n{:gutter$} | {:before$}{marks}", "", "")
}
