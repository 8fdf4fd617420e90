//! The scopes of config entries, and the list of sources that one load reads.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::diagnostic::Severity;

/// Name of the file with the servers of a project or of a user.
pub(crate) const FILE_NAME: &str = ".mcp.json";

/// Which source a config entry was loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scope {
    /// The administrator's managed file. It has the highest precedence.
    Managed,
    /// A file or JSON text given by `--mcp-config`.
    CommandLine,
    /// The user's entries for one project, stored outside of the project.
    Local,
    /// The `.mcp.json` in the project root, which is part of the project and not trusted.
    Project,
    /// The `.mcp.json` in the user's home directory.
    User,
    /// Added in code by the embedding program.
    Dynamic,
    /// Provided by the user's claude.ai account.
    #[serde(rename = "claudeai")]
    ClaudeAi,
}

impl Scope {
    /// The name used in JSON and in output.
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

    /// The severity of a source or entry that cannot be used: an error if the user named the source
    /// on the command line, otherwise a warning.
    pub(crate) fn failure_severity(self) -> Severity {
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

/// One `--mcp-config` argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// The path of a file.
    File(PathBuf),
    /// The JSON text itself.
    Inline(String),
}

impl ConfigSource {
    /// Treats an argument that starts with `{` as JSON and any other as a path.
    ///
    /// ```
    /// use switchboard_config::ConfigSource;
    ///
    /// assert_eq!(ConfigSource::from_argument("dev.json"), ConfigSource::File("dev.json".into()));
    /// assert_eq!(ConfigSource::from_argument(" {}"), ConfigSource::Inline(" {}".to_owned()));
    /// ```
    pub fn from_argument(argument: &str) -> Self {
        if argument.trim_start().starts_with('{') {
            Self::Inline(argument.to_owned())
        } else {
            Self::File(PathBuf::from(argument))
        }
    }
}

/// All sources of one [`load`](crate::load). The files need not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigSources {
    /// The `--mcp-config` arguments in their order; a later one has precedence over an earlier one.
    pub command_line: Vec<ConfigSource>,
    /// The administrator's managed file.
    pub managed: Option<PathBuf>,
    /// The user's file for this project.
    pub local: Option<PathBuf>,
    /// The project's `.mcp.json`.
    pub project: Option<PathBuf>,
    /// The user's `.mcp.json`.
    pub user: Option<PathBuf>,
    /// Ignore the local, project and user files (`--strict-mcp-config`).
    pub strict: bool,
}
