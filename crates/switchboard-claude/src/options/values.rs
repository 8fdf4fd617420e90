//! Options with a fixed set of values: [`PermissionMode`] and [`SettingSource`].

use std::fmt;

/// Which tools need permission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionMode {
    /// Every tool needs permission that no rule of the CLI allows or denies.
    Default,
    /// Like `Default`, but file edits run without asking.
    AcceptEdits,
    /// The model only plans. Tools that change something do not run.
    Plan,
    /// No tool needs permission: every tool runs without asking. For sandboxes only.
    BypassPermissions,
    /// The CLI never asks. Tools that need permission are denied.
    DontAsk,
    /// A model decides whether a tool use is permitted.
    Auto,
    /// A mode that this crate does not know.
    Other(String),
}

impl PermissionMode {
    /// The CLI's spelling of the mode.
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

/// A settings file of the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingSource {
    /// The user's settings.
    User,
    /// The project's settings.
    Project,
    /// The user's settings for this project.
    Local,
}

impl SettingSource {
    /// The CLI's spelling of the source.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}
