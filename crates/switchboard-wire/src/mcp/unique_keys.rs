//! Finds keys that occur twice in one object of a JSON text.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Fails if an object in the JSON text has the same key twice. Parsers that build a map keep only
/// one of the values, and different parsers keep different ones.
pub(super) fn check_unique_keys(json: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<UniqueKeys>(json).map(|UniqueKeys| ())
}

/// Any JSON value whose objects have unique keys. The value is not kept.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self, A::Error> {
        while elements.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            members.next_value::<Self>()?;
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            keys.insert(key);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::check_unique_keys;

    #[test]
    fn duplicate_keys_are_found_at_any_depth() {
        for json in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[1,{"b":{"a":null,"c":[],"a":true}}]"#,
        ] {
            let error = check_unique_keys(json).unwrap_err().to_string();
            assert!(error.contains(r#"duplicate key "a""#), "{error}");
        }
        for json in [
            "1.5e3",
            "123456789012345678901234567890",
            r#"{"a":{"a":-1},"b":[{"a":"x"},{"a":null}]}"#,
        ] {
            check_unique_keys(json).unwrap();
        }
        assert!(check_unique_keys("{").is_err());
    }
}
