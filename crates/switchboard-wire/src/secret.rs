//! A string that is never printed by accident.
//!
//! Invariant: neither `Debug` nor `Serialize` shows the text; only [`Secret::expose`] returns it.

use std::fmt;

use serde::{Serialize, Serializer};

/// A secret text, such as the value of an environment variable or of an HTTP header. `Debug` and
/// `Serialize` print [`Secret::MASK`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Secret(String);

impl Secret {
    /// The text shown in place of a secret.
    pub const MASK: &str = "***";

    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. Call it only to pass the text to the server, or to mask the text in
    /// output.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::MASK)
    }
}
