//! Arguments as a handler's type: read straight from the tree that was checked.
//!
//! The host checks arguments against the schema. What a type refuses beyond that is told with the
//! name of the argument, as far as the type reads its fields one by one.

use std::cell::Cell;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::map::Iter;
use serde_json::{Error, Map, Value};

/// Reads arguments, or says in words why they cannot be read.
pub(super) fn read<A: DeserializeOwned>(arguments: &Map<String, Value>) -> Result<A, String> {
    let at = Cell::new(None);
    let fields = Fields {
        entries: arguments.iter(),
        value: None,
        whole: arguments,
        at: &at,
    };
    A::deserialize(fields).map_err(|error| match at.get() {
        Some(name) => format!("the argument `{name}` cannot be used: {error}"),
        None => format!("the arguments cannot be used: {error}"),
    })
}

struct Fields<'a, 'de> {
    entries: Iter<'de>,
    value: Option<&'de Value>,
    whole: &'de Map<String, Value>,
    /// The argument that is being read.
    at: &'a Cell<Option<&'de str>>,
}

impl<'de> Deserializer<'de> for Fields<'_, 'de> {
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
        self.whole.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let next = self.entries.next();
        self.at.set(next.map(|(name, _)| name.as_str()));
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

    fn reading<A: DeserializeOwned>(arguments: &Value) -> Result<A, String> {
        read(arguments.as_object().unwrap())
    }

    #[test]
    fn a_struct_is_read_from_the_tree() {
        let order = Order {
            dish: "soup".to_owned(),
            plates: 2,
            spices: Some(vec!["salt".to_owned()]),
        };
        let written = json!({"dish": "soup", "plates": 2, "spices": ["salt"], "more": {}});
        assert_eq!(reading(&written), Ok(order));
        let table: Table = reading(&json!({"number": 3, "dish": "soup"})).unwrap();
        assert_eq!((table.number, table.order.dish.as_str()), (3, "soup"));
        let prices: BTreeMap<String, f64> = reading(&json!({"soup": 4.5})).unwrap();
        assert_eq!(prices, BTreeMap::from([("soup".to_owned(), 4.5)]));
    }

    #[test]
    fn what_a_type_refuses_is_told_with_the_argument() {
        for (arguments, told) in [
            (
                json!({"dish": 1}),
                "the argument `dish` cannot be used: invalid type: integer `1`, expected a string",
            ),
            (
                json!({"dish": "soup", "plates": 256}),
                "the argument `plates` cannot be used: invalid value: integer `256`, expected u8",
            ),
            (
                json!({"plates": 1}),
                "the arguments cannot be used: missing field `dish`",
            ),
        ] {
            assert_eq!(reading::<Order>(&arguments), Err(told.to_owned()));
        }
    }
}
