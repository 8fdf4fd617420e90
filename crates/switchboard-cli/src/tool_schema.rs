//! Reads a tool's input schema for help texts and argument coercion.
//!
//! Does not validate arguments; the host does. Invariant: reading takes bounded time and memory for
//! any schema a server sends.

use serde_json::Value;
use switchboard::mcp::Json;

/// Maximum bytes of a schema. A longer one is ignored: parsed into a [`Value`], it may take a
/// hundred times its length in memory.
const MAX_BYTES: usize = 512 * 1024;

/// Maximum number of `$ref`s that are followed from one schema.
const MAX_REFERENCES: usize = 8;

/// Maximum number of schemas that are read per value: the schema of the value and the members of
/// `anyOf`, `oneOf` and `allOf` at any depth.
const MAX_ALTERNATIVES: usize = 16;

/// Maximum nesting of lists in a printed type, such as `list of list of number`.
const MAX_LISTS: usize = 2;

/// The input schema of a tool, parsed. Without parameters if the schema is invalid or longer than
/// [`MAX_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct ToolSchema {
    root: Value,
}

/// One argument of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parameter<'a> {
    pub(crate) name: &'a str,
    /// The type for help texts, for example `string`, `list of number` or `"a" or "b"`.
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) description: Option<&'a str>,
    pub(crate) default: Option<&'a Value>,
}

impl ToolSchema {
    /// Parses a schema. If the schema is invalid or longer than [`MAX_BYTES`], the result has no
    /// parameters.
    pub(crate) fn parse(json: &Json) -> Self {
        let is_small = json.as_str().len() <= MAX_BYTES;
        let root = is_small.then(|| json.to_value().ok()).flatten();
        root.map_or_else(Self::default, Self::new)
    }

    pub(crate) fn new(root: Value) -> Self {
        Self { root }
    }

    /// The parameters: required ones first, otherwise in the server's order.
    pub(crate) fn parameters(&self) -> Vec<Parameter<'_>> {
        let properties = self.resolve(&self.root).get("properties");
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        let mut parameters: Vec<_> = properties
            .map(|(name, schema)| self.parameter(name, schema))
            .collect();
        parameters.sort_by_key(|parameter| !parameter.required);
        parameters
    }

    fn parameter<'a>(&'a self, name: &'a str, schema: &'a Value) -> Parameter<'a> {
        let resolved = self.resolve(schema);
        let field = |key| schema.get(key).or_else(|| resolved.get(key));
        Parameter {
            name,
            kind: self.type_name(schema, MAX_LISTS),
            required: self.is_required(name),
            description: field("description").and_then(Value::as_str),
            default: field("default"),
        }
    }

    fn is_required(&self, name: &str) -> bool {
        let required = self.resolve(&self.root).get("required");
        let mut required = required.and_then(Value::as_array).into_iter().flatten();
        required.any(|required| required == name)
    }

    /// The schema of one argument.
    pub(crate) fn argument(&self, name: &str) -> Option<&Value> {
        self.resolve(&self.root).get("properties")?.get(name)
    }

    /// The schema of the items of a list, found in any alternative of the list's schema.
    pub(crate) fn items<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        self.alternatives(schema)
            .into_iter()
            .find_map(|schema| schema.get("items"))
    }

    /// The values of `enum` and `const`, if the schema has them.
    pub(crate) fn choices<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let alternatives = self.alternatives(schema).into_iter();
        alternatives.flat_map(own_choices).collect()
    }

    /// Whether the schema or one of the alternatives lists `kind`, a JSON type name, in `type`.
    pub(crate) fn allows(&self, schema: &Value, kind: &str) -> bool {
        let mut alternatives = self.alternatives(schema).into_iter();
        alternatives.any(|schema| own_types(schema).contains(&kind))
    }

    /// Whether the schema or one of the alternatives has a `type`.
    pub(crate) fn is_typed(&self, schema: &Value) -> bool {
        let mut alternatives = self.alternatives(schema).into_iter();
        alternatives.any(|schema| !own_types(schema).is_empty())
    }

    /// The schema and its `anyOf`, `oneOf` and `allOf` members, with references resolved.
    fn alternatives<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![self.resolve(schema)];
        let mut next = 0;
        while let Some(schema) = found.get(next) {
            let members = ["anyOf", "oneOf", "allOf"]
                .into_iter()
                .filter_map(|key| schema.get(key)?.as_array())
                .flatten();
            let remaining = MAX_ALTERNATIVES.saturating_sub(found.len());
            let members: Vec<_> = members
                .take(remaining)
                .map(|schema| self.resolve(schema))
                .collect();
            found.extend(members);
            next += 1;
        }
        found
    }

    /// Follows `$ref`s within this schema. Stops at a reference that cannot be resolved.
    fn resolve<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..MAX_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
            match pointer.and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn type_name(&self, schema: &Value, lists: usize) -> String {
        const MAX_CHOICES: usize = 6;
        let choices = self.choices(schema);
        if (1..=MAX_CHOICES).contains(&choices.len()) {
            let choices: Vec<_> = choices.into_iter().map(Value::to_string).collect();
            return choices.join(" or ");
        }
        let mut kinds: Vec<String> = Vec::new();
        for alternative in self.alternatives(schema) {
            for kind in own_types(alternative) {
                let kind = self.json_type_name(kind, alternative, lists);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        match kinds.as_slice() {
            [] => "any".to_owned(),
            kinds => kinds.join(" or "),
        }
    }

    fn json_type_name(&self, kind: &str, schema: &Value, lists: usize) -> String {
        match (kind, schema.get("items"), lists.checked_sub(1)) {
            ("array", Some(items), Some(lists)) => {
                format!("list of {}", self.type_name(items, lists))
            }
            ("array", ..) => "list".to_owned(),
            _ => kind.to_owned(),
        }
    }
}

fn own_choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let listed = schema.get("enum").and_then(Value::as_array);
    listed.into_iter().flatten().chain(schema.get("const"))
}

fn own_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_have_readable_types() {
        let schema = ToolSchema::new(json!({
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "default": 10},
                "path": {"type": "string", "description": "Where"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "order": {"enum": ["up", "down"]},
                "zone": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "point": {"$ref": "#/$defs/Point"},
                "any": {},
            },
            "required": ["path", "point"],
            "$defs": {"Point": {"type": "object", "description": "x and y"}},
        }));
        let parameters: Vec<_> = schema
            .parameters()
            .into_iter()
            .map(|parameter| {
                (
                    parameter.name.to_owned(),
                    parameter.kind,
                    parameter.required,
                )
            })
            .collect();
        let expected = [
            ("path", "string", true),
            ("point", "object", true),
            ("limit", "integer", false),
            ("tags", "list of string", false),
            ("order", "\"up\" or \"down\"", false),
            ("zone", "string or null", false),
            ("any", "any", false),
        ];
        let expected = expected.map(|(name, kind, must)| (name.to_owned(), kind.to_owned(), must));
        assert_eq!(parameters, expected);
        assert_eq!(schema.parameters()[1].description, Some("x and y"));
    }

    #[test]
    fn self_reference_terminates() {
        let schema = ToolSchema::new(json!({
            "properties": {
                "a": {"$ref": "#/properties/a"},
                "b": {"type": "array", "items": {"$ref": "#/properties/b"}},
                "c": {"anyOf": [{"$ref": "#/properties/c"}, {"type": "string"}]},
            },
        }));
        assert_eq!(schema.parameters().len(), 3);
        assert!(schema.allows(schema.argument("c").unwrap(), "string"));
    }

    #[test]
    fn invalid_schema_has_no_parameters() {
        for invalid in [
            json!(null),
            json!([1]),
            json!({"properties": [1]}),
            json!("x"),
        ] {
            assert_eq!(ToolSchema::new(invalid).parameters(), []);
        }
    }
}
