//! Estimates how long validating a value against a schema takes, before doing it.
//!
//! A few hundred bytes of `allOf` and `$ref` can require more steps than any deadline allows, and
//! validation cannot be interrupted. The estimate counts how often the schema is evaluated at one
//! location of a value.
//!
//! Invariant: the estimate is an upper bound, up to a constant factor, and computing it takes
//! bounded time and stack.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A cost of this many evaluations per location, or more, counts as infinite.
const MAX_EVALUATIONS_PER_LOCATION: u64 = 1_000_000;
/// Maximum number of subschemas that the estimate visits.
const MAX_ESTIMATE_STEPS: usize = 200_000;
/// Maximum recursion depth of the estimate.
const MAX_RECURSION: usize = 400;
/// The cost is estimated for values of these depths. The depth of a value is rounded up to the next
/// of them; a deeper value is not validated.
const VALUE_DEPTHS: [usize; 5] = [2, 8, 16, 32, 128];
/// Maximum number of evaluations in one validation. This many take some tens of milliseconds.
const MAX_EVALUATIONS: u64 = 5_000_000;
/// A validation with at most this many evaluations runs on the caller's thread.
const LOW_EVALUATIONS: u64 = 50_000;
/// Maximum number of steps of the regular expressions in one validation. One step advances one state
/// of an automaton by one byte. A matcher needs that many steps only for hostile expressions, and
/// then this many take a few seconds.
const MAX_REGEX_STEPS: u64 = 2_000_000_000;
/// A validation with at most this many steps runs on the caller's thread.
const LOW_REGEX_STEPS: u64 = 2_000_000;
/// Minimum memory of one state of an automaton, in bytes.
const BYTES_PER_STATE: u64 = 24;

/// Keywords whose subschemas apply to the value itself, not to its members or elements.
const SAME_LOCATION_KEYWORDS: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
];
/// Keywords whose subschemas apply to the members or elements of the value.
const CHILD_KEYWORDS: [&str; 9] = [
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
];
/// Keywords whose subschemas apply to the members or elements of the value, at most one subschema
/// to each member or element.
const EXCLUSIVE_CHILD_KEYWORDS: [&str; 2] = ["properties", "prefixItems"];

/// The cost of validating a value, as a function of the size of the value.
#[derive(Debug)]
pub(super) struct ValidationCost {
    /// How often a schema is evaluated per location of a value, for each of [`VALUE_DEPTHS`].
    evaluations: [u64; VALUE_DEPTHS.len()],
    /// How many regular expressions are matched per location of a value, for each of
    /// [`VALUE_DEPTHS`].
    matches: [u64; VALUE_DEPTHS.len()],
    /// The maximum number of states of a regular expression in the schema.
    regex_states: u64,
}

impl ValidationCost {
    /// Estimates the cost. Returns `None` if the schema refers to itself without end.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        Some(Self {
            evaluations: estimate(schema, |_| 1)?,
            matches: estimate(schema, count_patterns)?,
            regex_states: 0,
        })
    }

    /// Sets the maximum size of a compiled regular expression in the schema, in bytes.
    pub(super) fn with_regex_size(mut self, max_bytes: usize) -> Self {
        self.regex_states = u64::try_from(max_bytes).unwrap_or(u64::MAX) / BYTES_PER_STATE;
        self
    }

    /// Whether validating this value stays within [`MAX_EVALUATIONS`] and [`MAX_REGEX_STEPS`].
    pub(super) fn allows(&self, value: &Value) -> bool {
        self.is_within(value, MAX_EVALUATIONS, MAX_REGEX_STEPS)
    }

    /// Whether validating this value takes at most about a millisecond.
    pub(super) fn is_low_for(&self, value: &Value) -> bool {
        self.is_within(value, LOW_EVALUATIONS, LOW_REGEX_STEPS)
    }

    fn is_within(&self, value: &Value, max_evaluations: u64, max_regex_steps: u64) -> bool {
        let mut size = ValueSize::default();
        size.add(value, 0);
        let Some(index) = VALUE_DEPTHS.iter().position(|known| size.depth <= *known) else {
            return false;
        };
        let at_depth = |costs: &[u64]| costs.get(index).copied().unwrap_or(u64::MAX);
        let evaluations = at_depth(&self.evaluations).saturating_mul(size.nodes);
        let steps_per_byte = at_depth(&self.matches).saturating_mul(self.regex_states);
        evaluations <= max_evaluations
            && steps_per_byte.saturating_mul(size.text_bytes) <= max_regex_steps
    }
}

/// Sums up the weights of the subschemas that are evaluated at one location, for each of
/// [`VALUE_DEPTHS`]. Returns `None` if the schema refers to itself without end.
fn estimate(schema: &Value, weigh: Weigh) -> Option<[u64; VALUE_DEPTHS.len()]> {
    let mut estimate = Estimate {
        root: schema,
        weigh,
        known: HashMap::new(),
        steps: 0,
    };
    let mut costs = [0; VALUE_DEPTHS.len()];
    for (cost, depth) in costs.iter_mut().zip(VALUE_DEPTHS) {
        *cost = estimate.evaluations(schema, depth, 0)?;
        if *cost >= MAX_EVALUATIONS_PER_LOCATION {
            *cost = u64::MAX;
        }
    }
    Some(costs)
}

/// Returns the weight of one subschema in an estimate.
type Weigh = fn(&Map<String, Value>) -> u64;

/// Counts the regular expressions that a subschema itself has.
fn count_patterns(keywords: &Map<String, Value>) -> u64 {
    let own = keywords.get("pattern").is_some_and(Value::is_string);
    let by_pattern = keywords.get("patternProperties").and_then(Value::as_object);
    let by_pattern = by_pattern.map_or(0, Map::len);
    u64::from(own) + u64::try_from(by_pattern).unwrap_or(u64::MAX)
}

/// The size of a JSON value.
#[derive(Default)]
struct ValueSize {
    /// The number of values inside the value, itself included.
    nodes: u64,
    depth: usize,
    /// The length of all strings and keys.
    text_bytes: u64,
}

impl ValueSize {
    fn add(&mut self, value: &Value, depth: usize) {
        self.nodes += 1;
        self.depth = self.depth.max(depth);
        match value {
            Value::String(text) => self.add_text(text),
            Value::Array(elements) => {
                for element in elements {
                    self.add(element, depth + 1);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.add_text(key);
                    self.add(member, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.text_bytes = self.text_bytes.saturating_add(bytes);
    }
}

struct Estimate<'a> {
    root: &'a Value,
    weigh: Weigh,
    /// The results, by address of the subschema and remaining depth. A result is `None` while it is
    /// being computed: if it is needed then, the schema refers to itself without end.
    known: HashMap<(*const Value, usize), Option<u64>>,
    steps: usize,
}

impl<'a> Estimate<'a> {
    /// Sums up the weights of the subschemas that are evaluated for each location of a value with
    /// `depth` levels. Returns `None` if the schema refers to itself without end.
    fn evaluations(&mut self, schema: &'a Value, depth: usize, recursion: usize) -> Option<u64> {
        let Value::Object(keywords) = schema else {
            return Some((self.weigh)(&Map::new()));
        };
        let key = (std::ptr::from_ref(schema), depth);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        self.steps += 1;
        if self.steps > MAX_ESTIMATE_STEPS || recursion > MAX_RECURSION {
            return Some(MAX_EVALUATIONS_PER_LOCATION);
        }
        self.known.insert(key, None);
        let mut total = (self.weigh)(keywords);
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str) {
            total = total.saturating_add(self.reference(target, depth, recursion)?);
        }
        for keyword in SAME_LOCATION_KEYWORDS {
            for schema in subschemas(keywords.get(keyword)) {
                total = total.saturating_add(self.evaluations(schema, depth, recursion + 1)?);
            }
        }
        if let Some(child_depth) = depth.checked_sub(1) {
            for keyword in CHILD_KEYWORDS {
                for schema in subschemas(keywords.get(keyword)) {
                    let more = self.evaluations(schema, child_depth, recursion + 1)?;
                    total = total.saturating_add(more);
                }
            }
            for keyword in EXCLUSIVE_CHILD_KEYWORDS {
                let mut largest = 0;
                for schema in subschemas(keywords.get(keyword)) {
                    largest = largest.max(self.evaluations(schema, child_depth, recursion + 1)?);
                }
                total = total.saturating_add(largest);
            }
        }
        self.known.insert(key, Some(total));
        Some(total)
    }

    /// Counts the evaluations of the subschema that a `$ref` refers to by JSON pointer. A reference
    /// without `#` counts as a reference to the whole schema.
    fn reference(&mut self, target: &str, depth: usize, recursion: usize) -> Option<u64> {
        let root = self.root;
        let pointer = target.strip_prefix('#').unwrap_or_default();
        match root.pointer(&pointer.replace("%25", "%")) {
            Some(schema) => self.evaluations(schema, depth, recursion + 1),
            // References by name (`$anchor`) are not resolved here, so assume the worst.
            None => Some(MAX_EVALUATIONS_PER_LOCATION),
        }
    }
}

/// Returns the schemas in the value of a keyword: a schema, a list of schemas or a map of schemas.
fn subschemas(value: Option<&Value>) -> Vec<&Value> {
    match value {
        Some(Value::Array(list)) => list.iter().collect(),
        Some(value @ Value::Object(map)) => {
            // A schema and a map of schemas cannot be told apart. Counting both never
            // underestimates.
            std::iter::once(value)
                .chain(map.values().filter(|value| value.is_object()))
                .collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A schema in which each level refers twice to the next.
    fn doubling(levels: usize) -> Value {
        let mut defs = serde_json::Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), json!({"allOf": [next.clone(), next]}));
        }
        defs.insert(format!("d{levels}"), json!({}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    #[test]
    fn ordinary_schemas_are_allowed() {
        let tree = json!({
            "$defs": {"node": {"properties": {
                "left": {"$ref": "#/$defs/node"},
                "right": {"$ref": "#/$defs/node"},
                "value": {"type": "number"},
            }}},
            "$ref": "#/$defs/node",
        });
        let mut value = json!({"value": 1});
        for _ in 0..20 {
            value = json!({"left": value, "right": {"value": 2}});
        }
        assert!(ValidationCost::of(&tree).unwrap().allows(&value));
        let plain = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let many = json!({"a": vec![0; 50_000]});
        assert!(ValidationCost::of(&plain).unwrap().allows(&many));
        assert!(
            ValidationCost::of(&doubling(10))
                .unwrap()
                .allows(&json!({}))
        );
    }

    #[test]
    fn exponential_schema_is_not_allowed() {
        assert!(
            !ValidationCost::of(&doubling(40))
                .unwrap()
                .allows(&json!({}))
        );
    }

    #[test]
    fn endless_reference_has_no_cost() {
        for endless in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        ] {
            assert!(ValidationCost::of(&endless).is_none(), "{endless}");
        }
    }

    #[test]
    fn recursive_doubling_is_allowed_only_for_flat_values() {
        let recursive = json!({"properties": {"c": {"$ref": "#"}}});
        let schema = json!({"allOf": [recursive.clone(), recursive]});
        let cost = ValidationCost::of(&schema).unwrap();
        assert!(cost.allows(&json!({"c": {"c": {}}})));
        let mut deep = json!({});
        for _ in 0..60 {
            deep = json!({ "c": deep });
        }
        assert!(!cost.allows(&deep));
    }

    #[test]
    fn long_text_is_not_matched_with_large_regex() {
        let schema = json!({"properties": {"a": {"pattern": "x"}, "b": {"pattern": "y"}}});
        let long = json!({"a": "x".repeat(100_000)});
        let allows = |size| {
            ValidationCost::of(&schema)
                .unwrap()
                .with_regex_size(size)
                .allows(&long)
        };
        assert!(allows(4 * 1024));
        assert!(!allows(1024 * 1024));
        let without = ValidationCost::of(&json!({"type": "object"})).unwrap();
        assert!(without.with_regex_size(1024 * 1024).allows(&long));
    }
}
