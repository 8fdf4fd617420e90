//! A piece of JSON that is carried, not looked into.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Valid JSON kept as its text: schemas, metadata, content blocks we do not know.
///
/// Cheap to clone; equal when the text is equal.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Keeps `text` if it is valid JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self(raw.to_owned().into()))
    }

    /// The text of it.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Builds the tree. The caller decides whether its size is fit for that.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        // Printing a tree of JSON yields JSON; `null` stands for what cannot happen.
        Self::parse(&value.to_string()).unwrap_or_else(|_| Self(RawValue::NULL.to_owned().into()))
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw.into())
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
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}
