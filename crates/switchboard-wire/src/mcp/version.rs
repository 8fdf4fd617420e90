//! Protocol versions and the two eras they belong to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The two generations of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: a session starts with `initialize`.
    Legacy,
    /// 2026-07-28: each request has the version and a description of the client; `server/discover`
    /// replaces `initialize`.
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

/// A supported protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26, the only version with batches
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the last version with `initialize`
    V2025_11_25,
    /// 2026-07-28, the first version without `initialize`
    V2026_07_28,
}

/// A version that is not supported: the first characters of what the server wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protocol version {0:?} is not one of {known}", known = ProtocolVersion::known())]
pub struct UnknownVersion(pub String);

impl ProtocolVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The version that `initialize` requests, unless the server reported that it supports only
    /// older legacy versions.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The version that `server/discover` requests.
    pub const LATEST_MODERN: Self = Self::V2026_07_28;

    /// The version as written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era of the version.
    #[inline]
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    /// All versions as a list for messages, oldest first.
    #[doc(hidden)]
    pub fn known() -> String {
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
