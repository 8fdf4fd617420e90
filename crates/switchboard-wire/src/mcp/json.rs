//! JSON that is stored as text and not parsed.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::text::sanitize;

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

    /// Returns the same JSON with sanitized texts: every string and every member name is passed
    /// through [`sanitize`]. JSON that is nested too deeply for a tree becomes `null`.
    pub fn sanitized(&self) -> Self {
        let text = self.as_str();
        if !text.contains('\\') && matches!(sanitize(text), Cow::Borrowed(_)) {
            return self.clone();
        }
        match self.to_value() {
            Ok(value) => match sanitize_value(&value) {
                Some(clean) => Self::from(clean),
                None => self.clone(),
            },
            Err(_) => Self::owned("null"),
        }
    }

    /// Parses the text into a tree. The caller checks first that it is small enough.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

/// Returns the value with sanitized strings and member names. `None` if nothing changes.
fn sanitize_value(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => match sanitize(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(clean) => Some(Value::String(clean)),
        },
        Value::Array(items) => {
            let clean: Vec<_> = items.iter().map(sanitize_value).collect();
            clean.iter().any(Option::is_some).then(|| {
                let pairs = items.iter().zip(clean);
                pairs
                    .map(|(item, clean)| clean.unwrap_or_else(|| item.clone()))
                    .collect()
            })
        }
        Value::Object(members) => {
            let clean: Vec<_> = members
                .iter()
                .map(|(name, value)| (sanitize(name), sanitize_value(value)))
                .collect();
            let is_changed = clean
                .iter()
                .any(|(name, value)| value.is_some() || matches!(name, Cow::Owned(_)));
            is_changed.then(|| {
                let pairs = members.values().zip(clean);
                pairs
                    .map(|(value, (name, clean))| {
                        (name.into_owned(), clean.unwrap_or_else(|| value.clone()))
                    })
                    .collect()
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self::owned(&value.to_string())
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl From<Map<String, Value>> for Json {
    fn from(members: Map<String, Value>) -> Self {
        Self::from(Value::Object(members))
    }
}

/// Makes a JSON string of a text. To parse JSON text, use [`Json::parse`].
impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::from(Value::from(text))
    }
}

/// Makes a JSON string of a text. To parse JSON text, use [`Json::parse`].
impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::from(Value::String(text))
    }
}

/// Parses JSON text.
impl FromStr for Json {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_names_are_sanitized() {
        let value = json!({
            "type": "object",
            "properties": {"a\u{200b}": {"description": "red \u{1b}[31m text", "enum": ["\u{202e}x", 1]}},
        });
        let clean = json!({
            "type": "object",
            "properties": {"a": {"description": "red  text", "enum": ["x", 1]}},
        });
        assert_eq!(Json::from(value).sanitized().to_value().unwrap(), clean);
    }

    #[test]
    fn clean_json_keeps_its_bytes() {
        for text in [r#"{ "pattern" : "^\\d+\n$", "n": 1.0e2 }"#, "[1,  2]"] {
            let json = Json::parse(text).unwrap();
            assert_eq!(json.sanitized().as_str(), text);
        }
    }

    #[test]
    fn json_beyond_the_depth_of_a_tree_is_dropped() {
        let deep = format!("{}\"\u{202e}\"{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(Json::owned(&deep).sanitized().as_str(), "null");
    }

    #[test]
    fn json_is_made_of_values_and_texts() {
        assert_eq!(Json::from("a\"b").as_str(), r#""a\"b""#);
        assert_eq!(Json::from(json!({"a": 1})), Json::from(&json!({"a": 1})));
        assert_eq!("[1]".parse::<Json>().unwrap().as_str(), "[1]");
        assert!("[1".parse::<Json>().is_err());
    }
}
