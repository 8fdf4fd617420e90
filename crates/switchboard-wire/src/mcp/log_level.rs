//! Severity of log messages.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Severity of a server's log message, lowest first (the levels of RFC 5424).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// A normal but significant event.
    Notice,
    /// A possible problem.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The server is unusable.
    Emergency,
}

/// A text that is not the name of a level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of {known}", known = LogLevel::ALL.map(LogLevel::as_str).join(", "))]
pub struct UnknownLogLevel(pub String);

impl LogLevel {
    /// All levels, lowest first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level as written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or_else(|| UnknownLogLevel(text.chars().take(64).collect()))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for LogLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
