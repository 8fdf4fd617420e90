//! The schemas that most tools have: an object of plain properties.
//!
//! To check one takes no compiler and no copy of the JSON Schema specification, which costs a
//! short-lived program more than its whole call. It knows few keywords and only their plainest
//! forms; whatever goes beyond is no [`Plain`] schema. Invariant: it accepts nothing that the full
//! check would refuse.

use serde_json::{Map, Value};

/// A schema of the plainest kind.
#[derive(Debug)]
pub(super) struct Plain {
    kinds: Vec<Kind>,
    properties: Vec<(String, Plain)>,
    required: Vec<String>,
    /// Properties that are not listed are welcome.
    is_open: bool,
    items: Option<Box<Plain>>,
    /// The texts that are allowed, where they are listed.
    options: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

/// The dialects in which the keywords below mean the same.
const DIALECTS: [&str; 2] = [
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema#",
];

/// Lists are searched from the beginning; longer ones than this are for the full check.
const LONGEST_LIST: usize = 64;

impl Plain {
    /// Reads a schema, if it is of this kind.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut plain = Self {
            kinds: Vec::new(),
            properties: Vec::new(),
            required: Vec::new(),
            is_open: true,
            items: None,
            options: None,
        };
        for (keyword, value) in schema.as_object()? {
            match keyword.as_str() {
                "title" | "description" | "$comment" => drop(value.as_str()?),
                "default" => {}
                "examples" => drop(value.as_array()?),
                "$schema" => drop(DIALECTS.iter().find(|dialect| *value == **dialect)?),
                "type" => plain.kinds = kinds(value)?,
                "properties" => plain.properties = properties(value.as_object()?)?,
                "required" => plain.required = texts(value)?,
                "additionalProperties" => plain.is_open = value.as_bool()?,
                "items" => plain.items = Some(Box::new(Self::of(value)?)),
                "enum" => plain.options = Some(texts(value).filter(|some| !some.is_empty())?),
                _ => return None,
            }
        }
        Some(plain)
    }

    /// Whether a value fits.
    pub(super) fn accepts(&self, value: &Value) -> bool {
        let is_of_kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.is_of(value));
        let is_option = match (&self.options, value) {
            (None, _) => true,
            (Some(options), Value::String(text)) => options.contains(text),
            (Some(_), _) => false,
        };
        is_of_kind
            && is_option
            && match value {
                Value::Object(object) => self.accepts_object(object),
                Value::Array(elements) => match &self.items {
                    Some(items) => elements.iter().all(|element| items.accepts(element)),
                    None => true,
                },
                _ => true,
            }
    }

    fn accepts_object(&self, object: &Map<String, Value>) -> bool {
        self.required.iter().all(|key| object.contains_key(key))
            && object.iter().all(|(key, value)| {
                let listed = self.properties.iter().find(|(name, _)| name == key);
                listed.map_or(self.is_open, |(_, schema)| schema.accepts(value))
            })
    }
}

impl Kind {
    fn parse(word: &Value) -> Option<Self> {
        Some(match word.as_str()? {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::String,
            "array" => Self::Array,
            "object" => Self::Object,
            _ => return None,
        })
    }

    fn is_of(self, value: &Value) -> bool {
        match (self, value) {
            // `1.0` is an integer too; that is left to the full check.
            (Self::Integer, Value::Number(number)) => number.is_i64() || number.is_u64(),
            (Self::Null, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Number, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Array, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            _ => false,
        }
    }
}

fn kinds(value: &Value) -> Option<Vec<Kind>> {
    match value {
        Value::Array(words) if words.is_empty() => None,
        Value::Array(words) => words.iter().map(Kind::parse).collect(),
        word => Kind::parse(word).map(|kind| vec![kind]),
    }
}

fn properties(written: &Map<String, Value>) -> Option<Vec<(String, Plain)>> {
    if written.len() > LONGEST_LIST {
        return None;
    }
    let property = |(name, schema): (&String, &Value)| Some((name.clone(), Plain::of(schema)?));
    written.iter().map(property).collect()
}

/// A list of texts, none of them twice.
fn texts(value: &Value) -> Option<Vec<String>> {
    let written = value.as_array()?;
    if written.len() > LONGEST_LIST {
        return None;
    }
    let texts: Vec<String> = written
        .iter()
        .map(|text| text.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    let is_repeated = |(at, text)| texts.iter().take(at).any(|other| other == text);
    (!texts.iter().enumerate().any(is_repeated)).then_some(texts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_accepts_only_what_the_full_check_accepts() {
        let schemas = [
            json!({}),
            json!({"type": "object"}),
            json!({"type": ["string", "null"]}),
            json!({"type": "integer"}),
            json!({"enum": ["a", "b"]}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "title": "t",
                "properties": {
                    "a": {"type": "number", "description": "d", "default": "x"},
                    "b": {"type": "array", "items": {"enum": ["p"]}},
                    "c": {"type": "object", "required": ["d"]},
                },
                "required": ["a"],
                "additionalProperties": false,
            }),
        ];
        let values = [
            json!(null),
            json!(true),
            json!(1),
            json!(1.0),
            json!(1.5),
            json!("a"),
            json!("z"),
            json!([]),
            json!(["a"]),
            json!([1]),
            json!({}),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": 1, "x": 1}),
            json!({"a": 1, "b": ["p", "p"]}),
            json!({"a": 1, "b": ["q"]}),
            json!({"a": 1, "c": {}}),
            json!({"a": 1, "c": {"d": null}}),
        ];
        for schema in &schemas {
            let plain = Plain::of(schema).unwrap();
            let full = jsonschema::validator_for(schema).unwrap();
            for value in &values {
                let agrees = plain.accepts(value) == full.is_valid(value);
                assert!(agrees || *value == json!(1.0), "{schema} {value}");
            }
        }
    }

    #[test]
    fn what_goes_beyond_is_not_plain() {
        for schema in [
            json!(true),
            json!({"anyOf": []}),
            json!({"$ref": "#"}),
            json!({"type": "text"}),
            json!({"type": []}),
            json!({"enum": [1]}),
            json!({"enum": []}),
            json!({"required": ["a", "a"]}),
            json!({"required": "a"}),
            json!({"properties": {"a": {"minimum": 1}}}),
            json!({"additionalProperties": {}}),
            json!({"title": 7}),
            json!({"items": [{}]}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
        ] {
            assert!(Plain::of(&schema).is_none(), "{schema}");
        }
    }
}
