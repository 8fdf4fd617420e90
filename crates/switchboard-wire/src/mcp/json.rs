//! A piece of JSON that is carried, not looked into.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Shorter parts of a message are copied, so that they do not keep the rest of it in memory.
const COPIED: usize = 16 * 1024;

/// Valid JSON kept as its text: schemas, metadata, content blocks we do not know.
///
/// Cheap to clone; equal when the text is equal.
#[derive(Clone)]
pub struct Json(Text);

#[derive(Clone)]
enum Text {
    Owned(Arc<str>),
    /// Most of a message, which is kept as it came. It is UTF-8.
    Part(Bytes),
}

impl Json {
    /// Keeps `text` if it is valid JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self::owned(raw.get()))
    }

    /// Keeps a text that is known to be valid JSON.
    pub fn owned(text: &str) -> Self {
        Self(Text::Owned(text.into()))
    }

    /// Keeps a part of a message that was found to be valid JSON, if it is UTF-8. A part that is
    /// most of the message is not copied.
    pub fn of_scanned(message: &Bytes, part: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(part).ok()?;
        let is_most = part.len() > COPIED && part.len() > message.len() / 2;
        Some(if is_most {
            Self(Text::Part(message.slice_ref(part)))
        } else {
            Self::owned(text)
        })
    }

    /// The text of it.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Owned(text) => text,
            Text::Part(bytes) => std::str::from_utf8(bytes).unwrap_or("null"),
        }
    }

    /// Builds the tree. The caller decides whether its size is fit for that.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        // Printing a tree of JSON yields JSON.
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
