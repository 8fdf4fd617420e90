//! Where entries come from: the scopes, the sources of one load, and the layers read from them.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::diagnostic::Severity;

/// The name of the file that holds a project's or a user's servers.
pub(crate) const FILE_NAME: &str = ".mcp.json";

/// Where a config entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scope {
    /// The administrator's file; wins over everything.
    Managed,
    /// A file or text named by `--mcp-config`.
    CommandLine,
    /// This user's entries for this project, kept outside of it.
    Local,
    /// The `.mcp.json` in the project root, written by whoever wrote the project.
    Project,
    /// The `.mcp.json` in the user's home folder.
    User,
    /// Set in code by the program that embeds the library.
    Dynamic,
    /// Offered by the user's claude.ai account.
    #[serde(rename = "claudeai")]
    ClaudeAi,
}

impl Scope {
    /// The name used on the wire and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::CommandLine => "command-line",
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
            Self::Dynamic => "dynamic",
            Self::ClaudeAi => "claudeai",
        }
    }

    /// How bad it is when something of this scope cannot be used: what was asked for on the command
    /// line must work, what merely lies around must not be in the way.
    pub(crate) fn severity_of_failure(self) -> Severity {
        match self {
            Self::CommandLine => Severity::Error,
            _ => Severity::Warning,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One argument of `--mcp-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The path of a file.
    File(PathBuf),
    /// The JSON text itself.
    Inline(String),
}

impl Source {
    /// Tells inline JSON, which starts with `{`, from the path of a file.
    ///
    /// ```
    /// use switchboard_config::Source;
    ///
    /// assert_eq!(Source::from_argument("dev.json"), Source::File("dev.json".into()));
    /// assert_eq!(Source::from_argument(" {}"), Source::Inline(" {}".to_owned()));
    /// ```
    pub fn from_argument(argument: &str) -> Self {
        if argument.trim_start().starts_with('{') {
            Self::Inline(argument.to_owned())
        } else {
            Self::File(PathBuf::from(argument))
        }
    }
}

/// Everything that one [`load`](crate::load) reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The arguments of `--mcp-config`, in the order given; a later one wins over an earlier one.
    pub command_line: Vec<Source>,
    /// The path of the administrator's file, whether or not it exists; so for all that follow.
    pub managed: Option<PathBuf>,
    /// The path of this user's file for this project.
    pub local: Option<PathBuf>,
    /// The path of the project's `.mcp.json`.
    pub project: Option<PathBuf>,
    /// The path of the user's `.mcp.json`.
    pub user: Option<PathBuf>,
    /// Leave out the files of the user and of the project (`--strict-mcp-config`).
    pub strict: bool,
}
