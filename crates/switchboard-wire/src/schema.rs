//! Arguments and structured results, checked against the schemas of the tool.
//!
//! Schemas are read once per definition, when first needed, and compiled only where they are not
//! plain or do not fit, to say why. A schema that cannot be compiled
//! switches its check off and says so; it never takes the tool or the server with it.

mod cost;
mod simple;

use std::fmt;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

use self::cost::Cost;
use self::simple::Plain;
use crate::mcp::Json;
use crate::scan;
use crate::text::one_line;

/// How many violations are told at once.
const TOLD: usize = 5;
/// How much is told of one violation, in bytes: it quotes the value.
const TOLD_BYTES: usize = 500;
/// A schema with more values than this is not compiled.
const SCHEMA_NODES: usize = 50_000;

/// A schema and, once it was needed, its compiled form.
pub struct CompiledSchema {
    schema: Json,
    plain: OnceLock<Option<Box<Plain>>>,
    compiled: OnceLock<Result<Box<Compiled>, String>>,
}

struct Compiled {
    validator: Validator,
    cost: Cost,
}

/// One way in which a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// Where, as a JSON pointer; empty for the whole.
    pub path: String,
    /// What is wrong there.
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

/// What came of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Validation {
    /// The value matches the schema.
    Valid,
    /// The value does not match the schema.
    Invalid(Vec<Violation>),
    /// The schema itself is of no use.
    Unusable(String),
}

impl CompiledSchema {
    /// Wraps a schema; it is compiled when it is first needed.
    pub fn new(schema: Json) -> Self {
        Self {
            schema,
            plain: OnceLock::new(),
            compiled: OnceLock::new(),
        }
    }

    /// Validates a value.
    pub fn validate(&self, value: &Value) -> Validation {
        if self.plain().is_some_and(|plain| plain.accepts(value)) {
            return Validation::Valid;
        }
        let Compiled { validator, cost } = match self.compiled() {
            Ok(compiled) => compiled.as_ref(),
            Err(why) => return Validation::Unusable(why.clone()),
        };
        if !cost.allows(value) {
            let why = "the schema asks for too much work with a value like this";
            return Validation::Unusable(why.to_owned());
        }
        if validator.is_valid(value) {
            return Validation::Valid;
        }
        let violations = validator
            .iter_errors(value)
            .take(TOLD)
            .map(|error| Violation {
                path: one_line(&error.instance_path().to_string(), TOLD_BYTES).into_owned(),
                message: one_line(&error.to_string(), TOLD_BYTES).into_owned(),
            });
        Validation::Invalid(violations.collect())
    }

    /// Why the schema cannot be used, if that is so.
    pub fn unusable_reason(&self) -> Option<&str> {
        if self.plain().is_some() {
            return None;
        }
        self.compiled().as_ref().err().map(String::as_str)
    }

    fn plain(&self) -> Option<&Plain> {
        let plain = self.plain.get_or_init(|| {
            let schema = tree(&self.schema).ok()?;
            Plain::of(&schema).map(Box::new)
        });
        plain.as_deref()
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

fn tree(schema: &Json) -> Result<Value, String> {
    if scan::count_nodes(schema.as_str().as_bytes()) > SCHEMA_NODES {
        return Err(format!("the schema holds more than {SCHEMA_NODES} values"));
    }
    schema.to_value().map_err(|error| error.to_string())
}

fn compile(schema: &Json) -> Result<Compiled, String> {
    let schema = tree(schema)?;
    if !schema.is_object() && !schema.is_boolean() {
        return Err("the schema is not an object".to_owned());
    }
    let cost =
        Cost::of(&schema).ok_or_else(|| "the schema refers to itself without end".to_owned())?;
    // Without its default features the crate cannot fetch: a remote `$ref` is an error here.
    // Patterns run on an engine without backtracking, so that no pattern takes for ever.
    let validator = jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(&schema)
        .map_err(|error| one_line(&error.to_string(), TOLD_BYTES).into_owned())?;
    Ok(Compiled { validator, cost })
}

/// Whether a value is small enough to be built as a tree and checked.
pub fn is_checkable(text: &Json, max_nodes: usize) -> bool {
    scan::count_nodes(text.as_str().as_bytes()) <= max_nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: &Value) -> CompiledSchema {
        CompiledSchema::new(value.into())
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
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
    fn a_broken_schema_switches_only_its_check_off() {
        for broken in [
            json!({"type": "no such type"}),
            json!({"$ref": "http://127.0.0.1:9/schema"}),
            json!([1]),
            json!("x"),
        ] {
            let schema = schema(&broken);
            assert!(
                matches!(schema.validate(&json!({})), Validation::Unusable(_)),
                "{broken}"
            );
            assert!(schema.unusable_reason().is_some());
        }
    }

    #[test]
    fn a_schema_that_would_take_for_ever_is_not_checked_against() {
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
    fn a_violation_quotes_no_more_than_fits_a_message() {
        let schema = schema(&json!({"type": "number"}));
        let long = json!(format!("\u{202e}{}", "x".repeat(100_000)));
        let Validation::Invalid(violations) = schema.validate(&long) else {
            panic!()
        };
        assert!(violations[0].message.len() < 600);
        assert!(!violations[0].message.contains('\u{202e}'));
    }

    #[test]
    fn a_pattern_that_would_backtrack_for_ever_does_not() {
        let schema = schema(&json!({"pattern": "^(a+)+$"}));
        let text = format!("{}!", "a".repeat(50_000));
        assert!(matches!(
            schema.validate(&json!(text)),
            Validation::Invalid(_)
        ));
    }
}
