//! How much work a schema can make of a value, found out before it does.
//!
//! A few hundred bytes of `allOf` and `$ref` can ask for more steps than there is time, and the check
//! cannot be interrupted. Pure. Invariant: the estimate is never below what the check may cost, up to
//! a constant factor, and making it takes bounded time and stack.

use std::collections::HashMap;

use serde_json::Value;

/// More evaluations than this for one place in a value are not worth counting.
const MANY: u64 = 1_000_000;
/// How many steps the estimate itself may take.
const STEPS: usize = 200_000;
/// How deep the estimate may nest.
const FRAMES: usize = 400;
/// For which depths of a value the estimate is made; deeper ones count as the last.
const DEPTHS: [usize; 5] = [2, 8, 16, 32, 128];
/// How many evaluations one check may take: some tens of milliseconds.
const AFFORDABLE: u64 = 5_000_000;

/// Applied to the same place of the value: one schema, a list, or a map of them.
const IN_PLACE: [&str; 9] = [
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
/// Applied to what lies inside the value.
const INSIDE: [&str; 9] = [
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
/// The same, but only one of them fits any one place.
const INSIDE_ONE_OF: [&str; 2] = ["properties", "prefixItems"];

/// How many times a schema looks at one place of a value, by the value's depth.
#[derive(Debug)]
pub(super) struct Cost([u64; DEPTHS.len()]);

impl Cost {
    /// `None`: the schema refers to itself without end.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut costs = [0; DEPTHS.len()];
        for (cost, depth) in costs.iter_mut().zip(DEPTHS) {
            let mut estimate = Estimate {
                root: schema,
                known: HashMap::new(),
                steps: 0,
            };
            *cost = estimate.evaluations(schema, depth, 0)?;
            if *cost >= MANY {
                *cost = u64::MAX;
            }
        }
        Some(Self(costs))
    }

    /// Whether checking a value of this size and depth comes to an end soon.
    pub(super) fn allows(&self, value: &Value) -> bool {
        let (nodes, depth) = measure(value, 0);
        let place = DEPTHS.iter().position(|known| depth <= *known);
        let cost = place
            .and_then(|place| self.0.get(place))
            .copied()
            .unwrap_or(u64::MAX);
        cost.saturating_mul(nodes) <= AFFORDABLE
    }
}

/// How many values, and how deep.
fn measure(value: &Value, depth: usize) -> (u64, usize) {
    let inside: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => return (1, depth),
    };
    inside
        .into_iter()
        .map(|value| measure(value, depth + 1))
        .fold((1, depth), |(nodes, deepest), (more, depth)| {
            (nodes + more, deepest.max(depth))
        })
}

struct Estimate<'a> {
    root: &'a Value,
    /// By address of the subschema and depth left; `None` while it is being worked on.
    known: HashMap<(*const Value, usize), Option<u64>>,
    steps: usize,
}

impl<'a> Estimate<'a> {
    fn evaluations(&mut self, schema: &'a Value, depth: usize, frame: usize) -> Option<u64> {
        let Value::Object(keywords) = schema else {
            return Some(1);
        };
        let key = (std::ptr::from_ref(schema), depth);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        self.steps += 1;
        if self.steps > STEPS || frame > FRAMES {
            return Some(MANY);
        }
        self.known.insert(key, None);
        let mut total = 1_u64;
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str) {
            total = total.saturating_add(self.referred(target, depth, frame)?);
        }
        for keyword in IN_PLACE {
            for schema in subschemas(keywords.get(keyword)) {
                total = total.saturating_add(self.evaluations(schema, depth, frame + 1)?);
            }
        }
        if let Some(deeper) = depth.checked_sub(1) {
            for keyword in INSIDE {
                for schema in subschemas(keywords.get(keyword)) {
                    total = total.saturating_add(self.evaluations(schema, deeper, frame + 1)?);
                }
            }
            for keyword in INSIDE_ONE_OF {
                let mut most = 0;
                for schema in subschemas(keywords.get(keyword)) {
                    most = most.max(self.evaluations(schema, deeper, frame + 1)?);
                }
                total = total.saturating_add(most);
            }
        }
        self.known.insert(key, Some(total));
        Some(total)
    }

    /// A reference within the schema; others are refused when it is compiled.
    fn referred(&mut self, target: &str, depth: usize, frame: usize) -> Option<u64> {
        let root = self.root;
        let pointer = target.strip_prefix('#').unwrap_or_default();
        match root.pointer(&pointer.replace("%25", "%")) {
            Some(schema) => self.evaluations(schema, depth, frame + 1),
            // By name (`$anchor`, `$id`): where it leads is not followed, so it may lead anywhere.
            None => Some(MANY),
        }
    }
}

/// The schemas under a keyword: itself, or those in a list or map.
fn subschemas(value: Option<&Value>) -> Vec<&Value> {
    match value {
        Some(Value::Array(list)) => list.iter().collect(),
        Some(value @ Value::Object(map)) => {
            // A map of schemas and a schema look alike; counting both is never too little.
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

    /// Each level asks twice for the next.
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
    fn ordinary_schemas_are_affordable() {
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
        assert!(Cost::of(&tree).unwrap().allows(&value));
        let plain = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let many = json!({"a": vec![0; 50_000]});
        assert!(Cost::of(&plain).unwrap().allows(&many));
        assert!(Cost::of(&doubling(10)).unwrap().allows(&json!({})));
    }

    #[test]
    fn a_schema_that_doubles_and_doubles_is_not() {
        assert!(!Cost::of(&doubling(40)).unwrap().allows(&json!({})));
    }

    #[test]
    fn a_schema_that_never_ends_has_no_cost() {
        for endless in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        ] {
            assert!(Cost::of(&endless).is_none(), "{endless}");
        }
    }

    #[test]
    fn a_recursion_that_doubles_with_every_level_of_the_value_is_affordable_only_for_flat_ones() {
        let again = json!({"properties": {"c": {"$ref": "#"}}});
        let schema = json!({"allOf": [again.clone(), again]});
        let cost = Cost::of(&schema).unwrap();
        assert!(cost.allows(&json!({"c": {"c": {}}})));
        let mut deep = json!({});
        for _ in 0..60 {
            deep = json!({ "c": deep });
        }
        assert!(!cost.allows(&deep));
    }
}
