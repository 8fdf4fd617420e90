//! Reads members of untyped JSON objects.
//!
//! Invariant: reading a member never fails. A member of an unexpected type counts as missing,
//! because another version of the CLI may use a different type.

use serde_json::{Map, Value};
use switchboard::mcp::Json;

/// A JSON value whose members can be read. If the value is not an object, all members are missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value) -> Self {
        Self(value)
    }

    /// Returns a member of any type. Returns `None` if it is missing or null.
    pub(crate) fn value(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Returns the members of the object in the member `key`.
    pub(crate) fn nested(self, key: &str) -> Self {
        Self(self.0.get(key).unwrap_or(&Value::Null))
    }

    pub(crate) fn text(self, key: &str) -> Option<String> {
        self.value(key)?.as_str().map(str::to_owned)
    }

    pub(crate) fn flag(self, key: &str) -> bool {
        self.value(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn number(self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    /// Returns a member that is a non-negative number, or 0 if it is missing. Cuts off the fraction
    /// of a float.
    pub(crate) fn count(self, key: &str) -> u64 {
        let value = self.value(key);
        value.and_then(to_count).unwrap_or_default()
    }

    pub(crate) fn json(self, key: &str) -> Option<Json> {
        self.value(key).map(Json::from)
    }

    pub(crate) fn object(self, key: &str) -> Map<String, Value> {
        let object = self.value(key).and_then(Value::as_object);
        object.cloned().unwrap_or_default()
    }

    pub(crate) fn list(self, key: &str) -> &'a [Value] {
        let list = self.value(key).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the strings in a list. Skips items of other types; returns an empty list if the
    /// member is missing.
    pub(crate) fn texts(self, key: &str) -> Vec<String> {
        let texts = self.list(key).iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is not negative, and float casts saturate"
)]
fn to_count(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|number| *number >= 0.0);
    value
        .as_u64()
        .or_else(|| float().map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mistyped_member_counts_as_missing() {
        let value = json!({"text": 1, "flag": "yes", "count": -3, "list": {}, "null": null});
        let fields = Fields::of(&value);
        assert_eq!(fields.text("text"), None);
        assert!(!fields.flag("flag"));
        assert_eq!(fields.count("count"), 0);
        assert!(fields.list("list").is_empty());
        assert_eq!(fields.json("null"), None);
        assert_eq!(fields.nested("text").nested("deeper").text("x"), None);
        assert_eq!(Fields::of(&json!([1])).text("0"), None);
    }

    #[test]
    fn counts_may_be_floats() {
        let value = json!({"a": 3, "b": 3.0});
        assert_eq!(Fields::of(&value).count("a"), 3);
        assert_eq!(Fields::of(&value).count("b"), 3);
    }
}
