//! Options with a fixed set of values: [`PermissionMode`] and [`SettingSource`].

use std::fmt;

/// Decides for which tools the CLI asks for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionMode {
    /// A tool needs permission unless the rules of the CLI allow or deny it.
    Default,
    /// Tools may edit files without permission. Any other tool use needs permission unless the
    /// rules of the CLI allow or deny it.
    AcceptEdits,
    /// The model only plans. Tools that change something do not run.
    Plan,
    /// Every tool runs without permission. Use it only in a sandbox.
    BypassPermissions,
    /// The CLI never asks for permission. It denies each tool use for which another mode would ask.
    DontAsk,
    /// A model decides for each tool use whether it is permitted.
    Auto,
    /// A mode that this crate does not know. Holds its name.
    Other(String),
}

impl PermissionMode {
    /// The name of the mode in the control protocol and on the command line.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
            Self::DontAsk => "dontAsk",
            Self::Auto => "auto",
            Self::Other(mode) => mode,
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for PermissionMode {
    fn from(text: &str) -> Self {
        let known = [
            Self::Default,
            Self::AcceptEdits,
            Self::Plan,
            Self::BypassPermissions,
            Self::DontAsk,
            Self::Auto,
        ];
        let mut known = known.into_iter();
        known
            .find(|mode| mode.as_str() == text)
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

/// One of the settings files that the CLI reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingSource {
    /// The settings of the user, for all projects.
    User,
    /// The settings of the project, for all its users.
    Project,
    /// The user's own settings for the project.
    Local,
}

impl SettingSource {
    /// The name of the source on the command line of the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}
