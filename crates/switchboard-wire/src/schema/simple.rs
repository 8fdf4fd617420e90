//! Schemas with simple keywords only: objects of typed properties, as most tools have.
//!
//! Validating against such a schema needs neither the JSON Schema compiler nor the meta-schemas. In
//! a short-lived program, loading these takes longer than the whole call. A schema with any other
//! keyword is not a [`SimpleSchema`] and is compiled.
//!
//! Invariant: a value that a simple schema accepts is also accepted by the compiled schema. The
//! opposite does not hold: a rejected value is validated again by the compiled schema.

use serde_json::{Map, Value};

/// A schema with simple keywords only.
#[derive(Debug)]
pub(super) struct SimpleSchema {
    /// The allowed types. Empty if all are allowed.
    types: Vec<JsonType>,
    properties: Vec<(String, SimpleSchema)>,
    required: Vec<String>,
    /// Whether properties that are not in `properties` are allowed.
    allows_additional: bool,
    items: Option<Box<SimpleSchema>>,
    /// The allowed strings (`enum`), if they are listed.
    enum_values: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

/// The dialects in which all keywords that [`SimpleSchema::parse`] accepts have the same meaning.
const DIALECTS: [&str; 2] = [
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema#",
];

/// Maximum length of the lists of a simple schema, which are searched linearly. A schema with a
/// longer list is compiled.
const MAX_LIST: usize = 64;

impl SimpleSchema {
    /// Reads a schema. Returns `None` if it is not simple.
    pub(super) fn parse(schema: &Value) -> Option<Self> {
        let mut simple = Self {
            types: Vec::new(),
            properties: Vec::new(),
            required: Vec::new(),
            allows_additional: true,
            items: None,
            enum_values: None,
        };
        for (keyword, value) in schema.as_object()? {
            match keyword.as_str() {
                "title" | "description" | "$comment" => drop(value.as_str()?),
                "default" => {}
                "examples" => drop(value.as_array()?),
                "$schema" => drop(DIALECTS.iter().find(|dialect| *value == **dialect)?),
                "type" => simple.types = parse_types(value)?,
                "properties" => simple.properties = parse_properties(value.as_object()?)?,
                "required" => simple.required = parse_unique_strings(value)?,
                "additionalProperties" => simple.allows_additional = value.as_bool()?,
                "items" => simple.items = Some(Box::new(Self::parse(value)?)),
                "enum" => {
                    let values = parse_unique_strings(value);
                    simple.enum_values = Some(values.filter(|values| !values.is_empty())?);
                }
                _ => return None,
            }
        }
        Some(simple)
    }

    /// Whether a value matches.
    pub(super) fn accepts(&self, value: &Value) -> bool {
        let has_type = self.types.is_empty() || self.types.iter().any(|kind| kind.matches(value));
        let is_in_enum = match (&self.enum_values, value) {
            (None, _) => true,
            (Some(allowed), Value::String(text)) => allowed.contains(text),
            (Some(_), _) => false,
        };
        has_type
            && is_in_enum
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
                let property = self.properties.iter().find(|(name, _)| name == key);
                property.map_or(self.allows_additional, |(_, schema)| schema.accepts(value))
            })
    }
}

impl JsonType {
    fn parse(name: &Value) -> Option<Self> {
        Some(match name.as_str()? {
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

    fn matches(self, value: &Value) -> bool {
        match (self, value) {
            // `1.0` is an integer, too. It is rejected here, and the compiled schema accepts it.
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

/// Reads `type`: one name or a list of names.
fn parse_types(value: &Value) -> Option<Vec<JsonType>> {
    match value {
        Value::Array(names) if names.is_empty() => None,
        Value::Array(names) => names.iter().map(JsonType::parse).collect(),
        name => JsonType::parse(name).map(|parsed| vec![parsed]),
    }
}

fn parse_properties(properties: &Map<String, Value>) -> Option<Vec<(String, SimpleSchema)>> {
    if properties.len() > MAX_LIST {
        return None;
    }
    properties
        .iter()
        .map(|(name, schema)| Some((name.clone(), SimpleSchema::parse(schema)?)))
        .collect()
}

/// Reads a list of strings without duplicates.
fn parse_unique_strings(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array()?;
    if list.len() > MAX_LIST {
        return None;
    }
    let strings: Vec<String> = list
        .iter()
        .map(|text| text.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    let is_repeated = |(index, text)| strings.iter().take(index).any(|other| other == text);
    (!strings.iter().enumerate().any(is_repeated)).then_some(strings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn simple_schema_agrees_with_compiled_schema() {
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
            let simple = SimpleSchema::parse(schema).unwrap();
            let compiled = jsonschema::validator_for(schema).unwrap();
            for value in &values {
                let agrees = simple.accepts(value) == compiled.is_valid(value);
                assert!(agrees || *value == json!(1.0), "{schema} {value}");
            }
        }
    }

    #[test]
    fn schema_with_other_keywords_is_not_simple() {
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
            assert!(SimpleSchema::parse(&schema).is_none(), "{schema}");
        }
    }
}
