//! JSON that is stored as text and not parsed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::unique_keys::check_unique_keys;

/// Parts of a message up to this size, in bytes, are copied, so that they do not keep the whole
/// message in memory.
const COPY_LIMIT: usize = 16 * 1024;

/// Valid JSON as text: schemas, metadata, content blocks of unknown types.
///
/// Clones share the text. Two values are equal if their texts are equal.
#[derive(Clone)]
pub struct Json(Text);

#[derive(Clone)]
enum Text {
    Owned(Arc<str>),
    /// A part of a received message, not copied. Valid UTF-8.
    Shared(Bytes),
}

impl Json {
    /// Stores `text` if it is valid JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self::owned(raw.get()))
    }

    /// Stores `bytes` if they are valid JSON in UTF-8.
    pub(crate) fn parse_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        Self::parse(text).ok()
    }

    /// Stores a text that is known to be valid JSON.
    #[doc(hidden)]
    pub fn owned(text: &str) -> Self {
        Self(Text::Owned(text.into()))
    }

    /// Stores a part of a message that the scanner found to be valid JSON. Returns `None` if it is
    /// not UTF-8. A large part that is more than half of the message is not copied.
    pub(crate) fn from_scanned(message: &Bytes, part: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(part).ok()?;
        let shares_message = part.len() > COPY_LIMIT && part.len() > message.len() / 2;
        Some(if shares_message {
            Self(Text::Shared(message.slice_ref(part)))
        } else {
            Self::owned(text)
        })
    }

    /// The JSON text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Owned(text) => text,
            Text::Shared(bytes) => std::str::from_utf8(bytes).unwrap_or("null"),
        }
    }

    /// Fails if an object in the text has the same key twice. [`to_value`](Self::to_value) keeps
    /// only the last value of such a key, and other parsers may keep another one.
    pub fn check_unique_keys(&self) -> Result<(), serde_json::Error> {
        check_unique_keys(self.as_str())
    }

    /// Parses the text into a tree. The caller checks first that it is small enough.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self::owned(&value.to_string())
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self::owned(raw.get())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}
