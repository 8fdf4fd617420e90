//! Validates tool arguments and structured results against JSON Schema.
//!
//! A schema is read when it is first used. Simple schemas are checked without the JSON Schema
//! compiler. A schema is compiled only if it is not simple, or to explain why a value does not
//! match. If a schema cannot be compiled or exceeds a limit, only its validation is switched off;
//! the tool stays usable.
//!
//! Invariant: compiling a schema and validating a value take bounded time and memory for any
//! schema. [`CompiledSchema::validate_quickly`] does neither if it takes more than about a
//! millisecond.

mod budget;
mod cost;
mod patterns;
mod simple;

use std::fmt;
use std::sync::OnceLock;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use self::budget::Reservation;
pub use self::budget::SchemaBudget;
use self::cost::ValidationCost;
use self::patterns::Patterns;
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
/// A schema with a longer text is not compiled.
const MAX_SCHEMA_BYTES: usize = 1024 * 1024;
/// The text of a schema up to this length is parsed within
/// [`CompiledSchema::validate_quickly`].
const MAX_QUICK_SCHEMA_BYTES: usize = 64 * 1024;
/// Estimated memory of a compiled schema per JSON value in its text, in bytes.
const BYTES_PER_NODE: usize = 512;
/// Estimated memory of a compiled regular expression, as a multiple of the limit on its size. An
/// expression is compiled to several automata.
const REGEX_MEMORY_FACTOR: usize = 4;

/// The end of the error message about a regular expression that is invalid or exceeds its limit.
const INVALID_REGEX: &str = "is not a \"regex\"";

/// A schema that is compiled when it is first needed.
pub struct CompiledSchema {
    schema: Json,
    budget: SchemaBudget,
    /// Set at the first use; holds `None` if the schema is not simple.
    simple: OnceLock<Option<Box<SimpleSchema>>>,
    compiled: OnceLock<Result<Box<Compiled>, String>>,
}

struct Compiled {
    validator: Validator,
    cost: ValidationCost,
    /// Held to count the memory of `validator`.
    _memory: Reservation,
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
        Self::with_budget(schema, &SchemaBudget::default())
    }

    /// Stores a schema whose compiled form counts toward `budget`.
    pub fn with_budget(schema: Json, budget: &SchemaBudget) -> Self {
        Self {
            schema,
            budget: budget.clone(),
            simple: OnceLock::new(),
            compiled: OnceLock::new(),
        }
    }

    /// Validates a value. Compiles the schema if necessary, which can take some hundred
    /// milliseconds. An async program calls this method on a thread for blocking work.
    pub fn validate(&self, value: &Value) -> Validation {
        if self.simple().is_some_and(|simple| simple.accepts(value)) {
            return Validation::Valid;
        }
        match self.compiled() {
            Ok(compiled) => compiled.validate(value),
            Err(reason) => Validation::Unusable(reason.clone()),
        }
    }

    /// Validates a value if that takes at most about a millisecond. Returns `None` if the schema
    /// has to be compiled first, or if the value is large.
    pub fn validate_quickly(&self, value: &Value) -> Option<Validation> {
        if self.simple.get().is_none() && self.schema.as_str().len() > MAX_QUICK_SCHEMA_BYTES {
            return None;
        }
        if self.simple().is_some_and(|simple| simple.accepts(value)) {
            return Some(Validation::Valid);
        }
        match self.compiled.get()? {
            Ok(compiled) if compiled.cost.is_low_for(value) => Some(compiled.validate(value)),
            Ok(_) => None,
            Err(reason) => Some(Validation::Unusable(reason.clone())),
        }
    }

    /// Compiles the schema, unless it is simple. Returns why the schema cannot be used for
    /// validation, or `None` if it can.
    pub fn unusable_reason(&self) -> Option<&str> {
        if self.simple().is_some() {
            return None;
        }
        self.compiled().as_ref().err().map(String::as_str)
    }

    /// Returns what [`Self::unusable_reason`] returns, if the schema was already compiled. Does not
    /// compile it.
    pub fn known_unusable_reason(&self) -> Option<&str> {
        self.compiled.get()?.as_ref().err().map(String::as_str)
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
            .get_or_init(|| compile(&self.schema, &self.budget).map(Box::new))
    }
}

impl Compiled {
    fn validate(&self, value: &Value) -> Validation {
        if !self.cost.allows(value) {
            let reason = "validating this value against the schema would take too long";
            return Validation::Unusable(reason.to_owned());
        }
        if self.validator.is_valid(value) {
            return Validation::Valid;
        }
        let shorten = |text: String| one_line(&text, MAX_VIOLATION_BYTES).into_owned();
        let errors = self.validator.iter_errors(value);
        let violations = errors.take(MAX_VIOLATIONS).map(|error| Violation {
            path: shorten(error.instance_path().to_string()),
            message: shorten(error.to_string()),
        });
        Validation::Invalid(violations.collect())
    }
}

impl fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompiledSchema").field(&self.schema).finish()
    }
}

fn parse_bounded(schema: &Json) -> Result<Value, String> {
    let text = schema.as_str().as_bytes();
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(format!(
            "the schema is longer than {} KiB",
            MAX_SCHEMA_BYTES / 1024
        ));
    }
    if scan::count_nodes(text) > MAX_SCHEMA_NODES {
        return Err(format!(
            "the schema has more than {MAX_SCHEMA_NODES} JSON values"
        ));
    }
    schema.to_value().map_err(|error| error.to_string())
}

/// Compiles a schema within the limits on nodes, bytes and regular expressions, and within the
/// memory that is left in `budget`.
fn compile(text: &Json, budget: &SchemaBudget) -> Result<Compiled, String> {
    let schema = parse_bounded(text)?;
    if !schema.is_object() && !schema.is_boolean() {
        return Err("the schema is not an object".to_owned());
    }
    let cost = ValidationCost::of(&schema)
        .ok_or_else(|| "the schema refers to itself without end".to_owned())?;
    let patterns = Patterns::of(&schema);
    let bytes = text.as_str().len() + scan::count_nodes(text.as_str().as_bytes()) * BYTES_PER_NODE;
    let mut reason = String::new();
    for size_limit in patterns.size_limits()? {
        let regexes = patterns.len() * size_limit * REGEX_MEMORY_FACTOR;
        let memory = budget.reserve(bytes + regexes)?;
        // Remote `$ref`s fail to compile: the default features of `jsonschema`, which would fetch
        // them, are off. The `regex` engine does not backtrack, so that no pattern takes
        // exponential time.
        let options = PatternOptions::regex()
            .size_limit(size_limit)
            .dfa_size_limit(patterns.matcher_bytes());
        let built = jsonschema::options()
            .with_pattern_options(options)
            .build(&schema);
        match built {
            Ok(validator) => {
                return Ok(Compiled {
                    validator,
                    cost: cost.with_regex_size(size_limit),
                    _memory: memory,
                });
            }
            Err(error) => {
                reason = one_line(&error.to_string(), MAX_VIOLATION_BYTES).into_owned();
                if !reason.ends_with(INVALID_REGEX) {
                    break;
                }
            }
        }
    }
    if reason.ends_with(INVALID_REGEX) {
        reason.push_str(", or it is too large when compiled");
    }
    Err(reason)
}

/// Whether a value is small enough to be parsed into a tree and validated.
pub fn is_checkable(value: &Json, max_nodes: usize) -> bool {
    scan::count_nodes(value.as_str().as_bytes()) <= max_nodes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use switchboard_testkit::{PeakMemory, cpu_time};

    use super::*;

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

    /// A schema with `count` properties whose patterns compile to megabytes each.
    fn schema_with_large_regexes(count: usize) -> CompiledSchema {
        let properties = (0..count).map(|index| {
            let pattern = format!("^\\p{{L}}{{1,150}}x{index}$");
            (format!("p{index}"), json!({ "pattern": pattern }))
        });
        let properties: serde_json::Map<_, _> = properties.collect();
        schema(&json!({ "properties": properties }))
    }

    #[test]
    fn large_regexes_stay_within_budget() {
        for count in [1, 10, 200, 1_000] {
            let memory = PeakMemory::begin();
            let started = cpu_time();
            let schema = schema_with_large_regexes(count);
            let reason = schema.unusable_reason().expect("over the limit");
            assert!(
                reason.contains("regular expression") || reason.contains("regex"),
                "{reason}"
            );
            assert!(matches!(
                schema.validate(&json!({"p0": "x"})),
                Validation::Unusable(_)
            ));
            let (growth, cpu) = (memory.growth(), cpu_time().saturating_sub(started));
            assert!(growth < 64 * 1024 * 1024, "{count}: {growth} bytes");
            assert!(cpu < Duration::from_secs(2), "{count}: {cpu:?}");
        }
    }

    #[test]
    fn ordinary_patterns_are_compiled() {
        let patterns = [
            r"^\d{4}-\d{2}-\d{2}$",
            r"^[^\s@]+@[^\s@]+\.[^\s@]+$",
            r"^[a-zA-Z0-9_-]{1,64}$",
            r"^.{1,255}$",
            r"^\p{L}+$",
        ];
        let properties = (0..200).map(|index| {
            let pattern = format!("{}|{index}", patterns[index % 3]);
            (format!("p{index}"), json!({ "pattern": pattern }))
        });
        let many: serde_json::Map<_, _> = properties.collect();
        assert_eq!(
            schema(&json!({ "properties": many })).unusable_reason(),
            None
        );
        for pattern in patterns {
            assert_eq!(
                schema(&json!({ "pattern": pattern })).unusable_reason(),
                None
            );
        }
    }

    #[test]
    fn schemas_of_one_server_share_a_budget() {
        let budget = SchemaBudget::default();
        let pattern = |index: usize| {
            let any_of: Vec<_> = (0..8)
                .map(|part| json!({"pattern": format!("^.{{1,250}}{index}-{part}$")}))
                .collect();
            CompiledSchema::with_budget((&json!({ "anyOf": any_of })).into(), &budget)
        };
        let schemas: Vec<_> = (0..20).map(pattern).collect();
        let usable = |schema: &&CompiledSchema| schema.unusable_reason().is_none();
        let first_usable = schemas.iter().filter(usable).count();
        assert!((1..20).contains(&first_usable), "{first_usable}");
        let reason = schemas[19].known_unusable_reason().unwrap();
        assert!(reason.contains("schemas of the server"), "{reason}");
        drop(schemas);
        assert_eq!(pattern(0).unusable_reason(), None);
    }

    #[test]
    fn quick_validation_never_compiles() {
        let schema = schema(&json!({"properties": {"a": {"minimum": 1}}}));
        assert_eq!(schema.validate_quickly(&json!({"a": 1})), None);
        assert_eq!(schema.known_unusable_reason(), None);
        assert_eq!(schema.validate(&json!({"a": 1})), Validation::Valid);
        assert_eq!(
            schema.validate_quickly(&json!({"a": 1})),
            Some(Validation::Valid)
        );
        let many = json!({"b": vec![0; 60_000]});
        assert_eq!(schema.validate_quickly(&many), None);
        assert_eq!(schema.validate(&many), Validation::Valid);
    }

    #[test]
    fn recursive_schema_is_estimated_in_bounded_time() {
        let defs = (0..100).map(|index| {
            let next = |step: usize| json!({"$ref": format!("#/$defs/d{}", (index + step) % 100)});
            (
                format!("d{index}"),
                json!({"properties": {"a": next(1), "b": {"items": next(7)}}}),
            )
        });
        let defs: serde_json::Map<_, _> = defs.collect();
        let schema = schema(&json!({"$ref": "#/$defs/d0", "$defs": defs}));
        let started = cpu_time();
        assert_eq!(schema.unusable_reason(), None);
        let cpu = cpu_time().saturating_sub(started);
        assert!(cpu < Duration::from_secs(1), "{cpu:?}");
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
