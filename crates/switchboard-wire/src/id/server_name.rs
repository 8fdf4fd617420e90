//! The name under which a server is configured.
//!
//! Invariant: a [`ServerName`] is safe to print, and two names never differ only in invisible
//! characters or in kinds of spaces.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use crate::text::sanitize_name;

/// A valid server name: 1 to 256 characters, no control or invisible characters, no space at either
/// end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ServerName(Arc<str>);

/// Why a text is not a valid [`ServerName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidServerName {
    /// The name has no characters.
    #[error("server name must not be empty")]
    Empty,
    /// The name has more than [`ServerName::MAX_CHARS`] characters.
    #[error(
        "server name must not be longer than {} characters",
        ServerName::MAX_CHARS
    )]
    TooLong,
    /// The name contains a control character or an invisible one.
    #[error("server name must not contain control or invisible characters")]
    Unprintable,
    /// The name starts or ends with a space.
    #[error("server name must not start or end with a space")]
    SpaceAtEnd,
}

impl ServerName {
    /// Maximum length of a name, in characters.
    pub const MAX_CHARS: usize = 256;

    /// Validates `name`.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidServerName> {
        let name = name.as_ref();
        if name.is_empty() {
            Err(InvalidServerName::Empty)
        } else if name.chars().count() > Self::MAX_CHARS {
            Err(InvalidServerName::TooLong)
        } else if name.starts_with(' ') || name.ends_with(' ') {
            Err(InvalidServerName::SpaceAtEnd)
        } else if sanitize_name(name) != name {
            Err(InvalidServerName::Unprintable)
        } else {
            Ok(Self(Arc::from(name)))
        }
    }

    /// The name as text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerName {
    type Err = InvalidServerName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for ServerName {
    #[inline]
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ServerName {
    #[inline]
    fn borrow(&self) -> &str {
        &self.0
    }
}
