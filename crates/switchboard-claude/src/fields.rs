//! Reads members of JSON that somebody else wrote.
//!
//! Invariant: nothing here fails. What is missing or of another type than expected is what its absence
//! would be: the next version of the CLI may have moved it.

use serde_json::{Map, Value};
use switchboard::mcp::Json;

/// The members of an object; of anything else there are none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value) -> Self {
        Self(value)
    }

    /// A member, if it is there and not null.
    pub(crate) fn value(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// The members of a member.
    pub(crate) fn inside(self, key: &str) -> Self {
        Self(self.0.get(key).unwrap_or(&Value::Null))
    }

    pub(crate) fn text(self, key: &str) -> Option<String> {
        self.value(key)?.as_str().map(str::to_owned)
    }

    pub(crate) fn flag(self, key: &str) -> bool {
        self.value(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn amount(self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    /// A whole number that is not negative, also if it is written with a fraction of zero.
    pub(crate) fn count(self, key: &str) -> u64 {
        let value = self.value(key);
        value.and_then(whole).unwrap_or_default()
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

    /// The texts of a list; what is no text is left out.
    pub(crate) fn texts(self, key: &str) -> Vec<String> {
        let texts = self.list(key).iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number that is not negative; casts saturate"
)]
fn whole(value: &Value) -> Option<u64> {
    let fraction = || value.as_f64().filter(|number| *number >= 0.0);
    value
        .as_u64()
        .or_else(|| fraction().map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_or_of_another_type_is_absent() {
        let value = json!({"text": 1, "flag": "yes", "count": -3, "list": {}, "null": null});
        let fields = Fields::of(&value);
        assert_eq!(fields.text("text"), None);
        assert!(!fields.flag("flag"));
        assert_eq!(fields.count("count"), 0);
        assert!(fields.list("list").is_empty());
        assert_eq!(fields.json("null"), None);
        assert_eq!(fields.inside("text").inside("deeper").text("x"), None);
        assert_eq!(Fields::of(&json!([1])).text("0"), None);
    }

    #[test]
    fn whole_numbers_may_have_a_fraction_of_zero() {
        let value = json!({"a": 3, "b": 3.0});
        assert_eq!(Fields::of(&value).count("a"), 3);
        assert_eq!(Fields::of(&value).count("b"), 3);
    }
}
