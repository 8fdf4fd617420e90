//! The supported clients. Each has a [`ClientFormat`] table in one of the child modules.

mod agents;
mod claude;
mod editors;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::client_format::ClientFormat;
use crate::nearest::nearest;

/// Another MCP client whose config files can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Client {
    /// Claude Code, the command line client of Anthropic.
    ClaudeCode,
    /// Claude Desktop, the desktop application of Anthropic.
    ClaudeDesktop,
    /// The Cursor editor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// The Windsurf editor.
    Windsurf,
    /// Codex, the command line client of `OpenAI`.
    Codex,
    /// Gemini CLI, the command line client of Google.
    GeminiCli,
    /// The Zed editor.
    Zed,
    /// opencode, a command line client.
    Opencode,
}

impl Client {
    /// All clients, in the order in which [`import`](super::import) reads them.
    pub const ALL: [Self; 9] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Codex,
        Self::GeminiCli,
        Self::Zed,
        Self::Opencode,
    ];

    /// The name used on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini",
            Self::Zed => "zed",
            Self::Opencode => "opencode",
        }
    }

    /// The product name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::Zed => "Zed",
            Self::Opencode => "opencode",
        }
    }

    /// Guesses the client from the last components of `path`.
    pub fn guess_from_path(path: &Path) -> Option<Self> {
        let has_file = |client: &Self| client.format().files.iter().any(|file| file.matches(path));
        Self::ALL.into_iter().find(has_file)
    }

    pub(super) fn format(self) -> &'static ClientFormat {
        match self {
            Self::ClaudeCode => &claude::CODE,
            Self::ClaudeDesktop => &claude::DESKTOP,
            Self::Cursor => &editors::CURSOR,
            Self::VsCode => &editors::VSCODE,
            Self::Windsurf => &editors::WINDSURF,
            Self::Zed => &editors::ZED,
            Self::Codex => &agents::CODEX,
            Self::GeminiCli => &agents::GEMINI,
            Self::Opencode => &agents::OPENCODE,
        }
    }
}

/// A text that is not the name of a supported client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.message())]
pub struct UnknownClient {
    /// The most similar client name.
    pub nearest: Option<&'static str>,
}

impl UnknownClient {
    fn message(&self) -> String {
        let names = Client::ALL.map(Client::as_str).join(", ");
        match self.nearest {
            Some(nearest) => format!("did you mean {nearest}? Known clients: {names}"),
            None => format!("known clients: {names}"),
        }
    }
}

impl FromStr for Client {
    type Err = UnknownClient;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL
            .into_iter()
            .find(|client| client.as_str() == text || client.title() == text);
        found.ok_or_else(|| UnknownClient {
            nearest: nearest(text, &Self::ALL.map(Self::as_str)),
        })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}

impl Serialize for Client {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
