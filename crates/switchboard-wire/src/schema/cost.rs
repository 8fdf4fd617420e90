//! Estimates how long validating a value against a schema takes, before doing it.
//!
//! A few hundred bytes of `allOf` and `$ref` can require more steps than any deadline allows, and
//! validation cannot be interrupted. The estimate counts how often the schema is evaluated at one
//! location of a value.
//!
//! Invariant: the estimate is an upper bound, up to a constant factor, and computing it takes
//! bounded time and stack.

use std::collections::HashMap;

use serde_json::Value;

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

/// How often a schema is evaluated per location of a value, for each of [`VALUE_DEPTHS`].
#[derive(Debug)]
pub(super) struct ValidationCost([u64; VALUE_DEPTHS.len()]);

impl ValidationCost {
    /// Estimates the cost. Returns `None` if the schema refers to itself without end.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut costs = [0; VALUE_DEPTHS.len()];
        for (cost, depth) in costs.iter_mut().zip(VALUE_DEPTHS) {
            let mut estimate = Estimate {
                root: schema,
                known: HashMap::new(),
                steps: 0,
            };
            *cost = estimate.evaluations(schema, depth, 0)?;
            if *cost >= MAX_EVALUATIONS_PER_LOCATION {
                *cost = u64::MAX;
            }
        }
        Some(Self(costs))
    }

    /// Whether validating this value takes at most [`MAX_EVALUATIONS`].
    pub(super) fn allows(&self, value: &Value) -> bool {
        let (nodes, depth) = measure(value, 0);
        let index = VALUE_DEPTHS.iter().position(|known| depth <= *known);
        let cost = index
            .and_then(|index| self.0.get(index))
            .copied()
            .unwrap_or(u64::MAX);
        cost.saturating_mul(nodes) <= MAX_EVALUATIONS
    }
}

/// Returns the number of values inside a value, itself included, and the greatest depth.
fn measure(value: &Value, depth: usize) -> (u64, usize) {
    let children: Vec<&Value> = match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => return (1, depth),
    };
    children
        .into_iter()
        .map(|child| measure(child, depth + 1))
        .fold((1, depth), |(nodes, deepest), (more, depth)| {
            (nodes + more, deepest.max(depth))
        })
}

struct Estimate<'a> {
    root: &'a Value,
    /// The results, by address of the subschema and remaining depth. A result is `None` while it is
    /// being computed: if it is needed then, the schema refers to itself without end.
    known: HashMap<(*const Value, usize), Option<u64>>,
    steps: usize,
}

impl<'a> Estimate<'a> {
    /// Estimates how many subschemas are evaluated for each location of a value with `depth`
    /// levels. Returns `None` if the schema refers to itself without end.
    fn evaluations(&mut self, schema: &'a Value, depth: usize, recursion: usize) -> Option<u64> {
        let Value::Object(keywords) = schema else {
            return Some(1);
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
        let mut total = 1_u64;
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
}
