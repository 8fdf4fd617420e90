//! Validates tool arguments and structured results against JSON Schema.
//!
//! A schema is read when it is first used. Simple schemas are checked without the JSON Schema
//! compiler. A schema is compiled only if it is not simple, or to explain why a value does not
//! match. If a schema cannot be compiled, only its validation is switched off; the tool stays
//! usable.
//!
//! Invariant: validating a value takes bounded time for any schema.

mod cost;
mod simple;

use std::fmt;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

use self::cost::ValidationCost;
use self::simple::SimpleSchema;
use crate::mcp::Json;
use crate::scan;
use crate::text::one_line;

/// Maximum number of violations that one validation reports.
const MAX_VIOLATIONS: usize = 5;
/// The path and the message of a violation are each truncated to this many bytes, because they
/// quote the value. So is the error of a schema that cannot be compiled.
const MAX_VIOLATION_BYTES: usize = 500;
/// A schema with more JSON values and keys is neither simple nor compiled.
const MAX_SCHEMA_NODES: usize = 50_000;

/// A schema that is compiled when it is first needed.
pub struct CompiledSchema {
    schema: Json,
    /// Set at the first use; holds `None` if the schema is not simple.
    simple: OnceLock<Option<Box<SimpleSchema>>>,
    compiled: OnceLock<Result<Box<Compiled>, String>>,
}

struct Compiled {
    validator: Validator,
    cost: ValidationCost,
}

/// One way in which a value violates a schema.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The location of the violation in the value, as a JSON pointer. Empty for the whole value.
    pub path: String,
    /// What is wrong at this location.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "at {}: {}", self.path, self.message)
        }
    }
}

/// The outcome of [`CompiledSchema::validate`].
#[derive(Debug, PartialEq, Eq)]
pub enum Validation {
    /// The value matches the schema.
    Valid,
    /// The value does not match the schema.
    Invalid(Vec<Violation>),
    /// The value was not validated: the schema cannot be compiled, or validating the value would
    /// take too long. Holds the reason.
    Unusable(String),
}

impl CompiledSchema {
    /// Stores a schema without reading it.
    pub fn new(schema: Json) -> Self {
        Self {
            schema,
            simple: OnceLock::new(),
            compiled: OnceLock::new(),
        }
    }

    /// Validates a value.
    pub fn validate(&self, value: &Value) -> Validation {
        if self.simple().is_some_and(|simple| simple.accepts(value)) {
            return Validation::Valid;
        }
        let Compiled { validator, cost } = match self.compiled() {
            Ok(compiled) => compiled.as_ref(),
            Err(reason) => return Validation::Unusable(reason.clone()),
        };
        if !cost.allows(value) {
            let reason = "validating this value against the schema would take too long";
            return Validation::Unusable(reason.to_owned());
        }
        if validator.is_valid(value) {
            return Validation::Valid;
        }
        let shorten = |text: String| one_line(&text, MAX_VIOLATION_BYTES).into_owned();
        let violations = validator
            .iter_errors(value)
            .take(MAX_VIOLATIONS)
            .map(|error| Violation {
                path: shorten(error.instance_path().to_string()),
                message: shorten(error.to_string()),
            });
        Validation::Invalid(violations.collect())
    }

    /// Returns why the schema cannot be compiled, or `None` if it can.
    pub fn unusable_reason(&self) -> Option<&str> {
        if self.simple().is_some() {
            return None;
        }
        self.compiled().as_ref().err().map(String::as_str)
    }

    fn simple(&self) -> Option<&SimpleSchema> {
        let simple = self.simple.get_or_init(|| {
            let schema = parse_bounded(&self.schema).ok()?;
            SimpleSchema::parse(&schema).map(Box::new)
        });
        simple.as_deref()
    }

    fn compiled(&self) -> &Result<Box<Compiled>, String> {
        self.compiled
            .get_or_init(|| compile(&self.schema).map(Box::new))
    }
}

impl fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompiledSchema").field(&self.schema).finish()
    }
}

fn parse_bounded(schema: &Json) -> Result<Value, String> {
    if scan::count_nodes(schema.as_str().as_bytes()) > MAX_SCHEMA_NODES {
        return Err(format!(
            "the schema has more than {MAX_SCHEMA_NODES} JSON values"
        ));
    }
    schema.to_value().map_err(|error| error.to_string())
}

fn compile(schema: &Json) -> Result<Compiled, String> {
    let schema = parse_bounded(schema)?;
    if !schema.is_object() && !schema.is_boolean() {
        return Err("the schema is not an object".to_owned());
    }
    let cost = ValidationCost::of(&schema)
        .ok_or_else(|| "the schema refers to itself without end".to_owned())?;
    // Remote `$ref`s fail to compile: the default features of `jsonschema`, which would fetch them,
    // are off. The `regex` engine does not backtrack, so that no pattern takes exponential time.
    let validator = jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(&schema)
        .map_err(|error| one_line(&error.to_string(), MAX_VIOLATION_BYTES).into_owned())?;
    Ok(Compiled { validator, cost })
}

/// Whether a value is small enough to be parsed into a tree and validated.
pub fn is_checkable(value: &Json, max_nodes: usize) -> bool {
    scan::count_nodes(value.as_str().as_bytes()) <= max_nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: &Value) -> CompiledSchema {
        CompiledSchema::new(value.into())
    }

    #[test]
    fn violation_names_its_path() {
        let schema = schema(&json!({
            "type": "object",
            "properties": { "a": { "type": "number" } },
            "required": ["a"],
        }));
        assert_eq!(schema.validate(&json!({"a": 1})), Validation::Valid);
        let Validation::Invalid(violations) = schema.validate(&json!({"a": "x"})) else {
            panic!()
        };
        assert_eq!(
            violations[0].to_string(),
            "at /a: \"x\" is not of type \"number\""
        );
        let Validation::Invalid(violations) = schema.validate(&json!({})) else {
            panic!()
        };
        assert_eq!(violations[0].to_string(), "\"a\" is a required property");
    }

    #[test]
    fn invalid_schema_is_unusable() {
        for invalid in [
            json!({"type": "no such type"}),
            json!({"$ref": "http://127.0.0.1:9/schema"}),
            json!([1]),
            json!("x"),
        ] {
            let schema = schema(&invalid);
            assert!(
                matches!(schema.validate(&json!({})), Validation::Unusable(_)),
                "{invalid}"
            );
            assert!(schema.unusable_reason().is_some());
        }
    }

    #[test]
    fn exponential_schema_is_unusable() {
        let mut defs = serde_json::Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), json!({"allOf": [next.clone(), next]}));
        }
        defs.insert("d40".to_owned(), json!({}));
        let bomb = schema(&json!({"$ref": "#/$defs/d0", "$defs": defs}));
        assert!(matches!(bomb.validate(&json!({})), Validation::Unusable(_)));
        let endless = schema(&json!({"allOf": [{"$ref": "#"}]}));
        assert!(matches!(
            endless.validate(&json!({})),
            Validation::Unusable(_)
        ));
    }

    #[test]
    fn violation_is_truncated_and_sanitized() {
        let schema = schema(&json!({"type": "number"}));
        let long = json!(format!("\u{202e}{}", "x".repeat(100_000)));
        let Validation::Invalid(violations) = schema.validate(&long) else {
            panic!()
        };
        assert!(violations[0].message.len() < 600);
        assert!(!violations[0].message.contains('\u{202e}'));
    }

    #[test]
    fn pattern_takes_linear_time() {
        let schema = schema(&json!({"pattern": "^(a+)+$"}));
        let text = format!("{}!", "a".repeat(50_000));
        assert!(matches!(
            schema.validate(&json!(text)),
            Validation::Invalid(_)
        ));
    }
}
