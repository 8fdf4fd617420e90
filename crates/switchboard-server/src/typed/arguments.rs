//! Deserializes the arguments of a call into the type that the handler takes, without copying the
//! JSON value first.
//!
//! The host or the adapter has already validated the arguments of a tool against its input schema;
//! those of a prompt are not validated. If the type rejects an argument, the error contains the
//! name of the argument. The name is missing for types that do not deserialize their fields one by
//! one, such as enums.

use std::cell::Cell;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::map::Iter;
use serde_json::{Error, Map, Value};

/// Deserializes the arguments into `A`. The error is a message for the model.
///
/// JSON Schema regards `1.0` as an integer, and serde does not. If `A` rejects the arguments, whole
/// floats are deserialized as integers.
pub(super) fn parse<A: DeserializeOwned>(arguments: &Map<String, Value>) -> Result<A, String> {
    let error = match parse_as_written(arguments) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    let mut arguments = arguments.clone();
    let mut has_changed = false;
    for value in arguments.values_mut() {
        has_changed |= make_whole_floats_integers(value);
    }
    if has_changed && let Ok(parsed) = parse_as_written(&arguments) {
        return Ok(parsed);
    }
    Err(error)
}

/// Replaces floats without a fraction by integers, as far as a float holds every integer exactly.
/// Returns whether there were any.
fn make_whole_floats_integers(value: &mut Value) -> bool {
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && float.abs() <= MAX_EXACT);
            let Some(whole) = whole else { return false };
            #[expect(clippy::cast_possible_truncation, reason = "at most MAX_EXACT")]
            let integer = whole as i64;
            *value = integer.into();
            true
        }
        Value::Array(items) => {
            let mut has_changed = false;
            for item in items {
                has_changed |= make_whole_floats_integers(item);
            }
            has_changed
        }
        Value::Object(members) => {
            let mut has_changed = false;
            for member in members.values_mut() {
                has_changed |= make_whole_floats_integers(member);
            }
            has_changed
        }
        _ => false,
    }
}

fn parse_as_written<A: DeserializeOwned>(arguments: &Map<String, Value>) -> Result<A, String> {
    let current_argument = Cell::new(None);
    let deserializer = ArgumentDeserializer {
        entries: arguments.iter(),
        value: None,
        all_arguments: arguments,
        current_argument: &current_argument,
    };
    A::deserialize(deserializer).map_err(|error| match current_argument.get() {
        Some(name) => format!("invalid argument `{name}`: {error}"),
        None => format!("invalid arguments: {error}"),
    })
}

/// Deserializes a JSON object, and records in `current_argument` which member is being read.
struct ArgumentDeserializer<'a, 'de> {
    entries: Iter<'de>,
    value: Option<&'de Value>,
    all_arguments: &'de Map<String, Value>,
    current_argument: &'a Cell<Option<&'de str>>,
}

impl<'de> Deserializer<'de> for ArgumentDeserializer<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.all_arguments.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for ArgumentDeserializer<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let next = self.entries.next();
        self.current_argument
            .set(next.map(|(name, _)| name.as_str()));
        let Some((name, value)) = next else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(serde::de::value::BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value.take().unwrap_or(&Value::Null))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Order {
        dish: String,
        #[serde(default)]
        plates: u8,
        spices: Option<Vec<String>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Table {
        number: u32,
        #[serde(flatten)]
        order: Order,
    }

    fn parse_json<A: DeserializeOwned>(arguments: &Value) -> Result<A, String> {
        parse(arguments.as_object().unwrap())
    }

    #[test]
    fn structs_and_maps_are_deserialized() {
        let order = Order {
            dish: "soup".to_owned(),
            plates: 2,
            spices: Some(vec!["salt".to_owned()]),
        };
        let json = json!({"dish": "soup", "plates": 2, "spices": ["salt"], "more": {}});
        assert_eq!(parse_json(&json), Ok(order));
        let table: Table = parse_json(&json!({"number": 3, "dish": "soup"})).unwrap();
        assert_eq!((table.number, table.order.dish.as_str()), (3, "soup"));
        let prices: BTreeMap<String, f64> = parse_json(&json!({"soup": 4.5})).unwrap();
        assert_eq!(prices, BTreeMap::from([("soup".to_owned(), 4.5)]));
    }

    #[test]
    fn whole_floats_are_integers() {
        let order = Order {
            dish: "soup".to_owned(),
            plates: 2,
            spices: None,
        };
        assert_eq!(
            parse_json(&json!({"dish": "soup", "plates": 2.0})),
            Ok(order)
        );
        let nested: BTreeMap<String, Vec<u8>> = parse_json(&json!({"a": [1.0, 2, 3e0]})).unwrap();
        assert_eq!(nested, BTreeMap::from([("a".to_owned(), vec![1, 2, 3])]));
        let floats: BTreeMap<String, Value> = parse_json(&json!({"a": 1.0})).unwrap();
        assert_eq!(floats["a"], json!(1.0));
        for plates in [json!(2.5), json!(256.0), json!(1e300), json!("2")] {
            let error = parse_json::<Order>(&json!({"dish": "soup", "plates": plates}));
            assert!(error.unwrap_err().contains("`plates`"), "{plates}");
        }
    }

    #[test]
    fn error_names_the_failing_argument() {
        for (arguments, message) in [
            (
                json!({"dish": 1}),
                "invalid argument `dish`: invalid type: integer `1`, expected a string",
            ),
            (
                json!({"dish": "soup", "plates": 256}),
                "invalid argument `plates`: invalid value: integer `256`, expected u8",
            ),
            (
                json!({"plates": 1}),
                "invalid arguments: missing field `dish`",
            ),
        ] {
            assert_eq!(parse_json::<Order>(&arguments), Err(message.to_owned()));
        }
    }
}
