//! Versions, eras, and what a server says of itself in its first answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Json;

/// Which of the two protocols a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: a connection is opened by `initialize`.
    Legacy,
    /// 2026-07-28: every request describes itself, `server/discover` tells what there is.
    Modern,
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

/// A protocol version that we speak. Others are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26, the only one with batches
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the last with `initialize`
    V2025_11_25,
    /// 2026-07-28, the first without
    V2026_07_28,
}

/// A version that we do not speak, as the server wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protocol version {0:?} is not one of {known}", known = ProtocolVersion::known())]
pub struct UnknownVersion(pub String);

impl ProtocolVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// What `initialize` offers.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// What the probe offers.
    pub const LATEST_MODERN: Self = Self::V2026_07_28;

    /// How the version is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era it belongs to.
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    fn known() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl std::str::FromStr for ProtocolVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
            .ok_or_else(|| UnknownVersion(text.chars().take(64).collect()))
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ProtocolVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A program's name and version, as it gives them itself. For show, never for decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Implementation {
    /// A program by name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
        }
    }
}

/// Which parts of the protocol a server offers, as far as we act on it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own in the protocol"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapabilities {
    /// It has tools.
    pub tools: bool,
    /// It says when its tools change.
    pub tools_list_changed: bool,
    /// It has resources.
    pub resources: bool,
    /// It says when the list of its resources changes.
    pub resources_list_changed: bool,
    /// It says when a resource changes, to whoever subscribed to it.
    pub resources_subscribe: bool,
    /// It has prompts.
    pub prompts: bool,
    /// It says when its prompts change.
    pub prompts_list_changed: bool,
    /// It sends log messages.
    pub logging: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It runs tool calls as tasks for whoever asks for that (2025-11-25).
    pub tasks: bool,
    /// Such tasks can be cancelled.
    pub tasks_cancel: bool,
    /// All of it as sent.
    #[serde(skip)]
    pub raw: Option<Json>,
}

/// What a server said of itself when the session began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerHello {
    /// The version that both sides use from here on.
    pub version: ProtocolVersion,
    /// Who the server says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Implementation>,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How the server wishes to be used: untrusted text for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}
