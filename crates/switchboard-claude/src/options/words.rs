//! Options with a fixed set of values: [`PermissionMode`] and [`SettingSource`].

use std::fmt;

/// Which questions about tools are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionMode {
    /// All that no rule answers.
    Default,
    /// None about changes to files.
    AcceptEdits,
    /// None, and nothing is changed: the model makes a plan.
    Plan,
    /// None at all, everything is done. Only for places where nothing can be broken.
    BypassPermissions,
    /// None: what would be asked about is not done.
    DontAsk,
    /// A model decides.
    Auto,
    /// One that is not known here.
    Other(String),
}

impl PermissionMode {
    /// The mode as the CLI spells it.
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

/// A file that the CLI reads settings from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingSource {
    /// The user's.
    User,
    /// The project's.
    Project,
    /// The user's for this project.
    Local,
}

impl SettingSource {
    /// The source as the CLI spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}
