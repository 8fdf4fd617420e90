//! Input schemas in the form that the APIs of models accept: an object at the root, without a choice
//! between schemas there.
//!
//! Invariant: every input that the original schema accepts is described. The host validates calls
//! against the original schema, so a looser description for the model admits no invalid call.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use switchboard_wire::mcp::Json;

/// The keywords that the APIs of models reject at the root of a schema.
const CHOICES: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Converts the input schema of a tool. Returns the same schema if it is already accepted. A schema
/// that is not an object is replaced by one that accepts every object.
pub(super) fn model_schema(schema: Json) -> Json {
    if is_accepted(&schema) {
        return schema;
    }
    let mut members = match schema.to_value() {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    for key in CHOICES {
        if let Some(Value::Array(variants)) = members.shift_remove(key) {
            let variants: Vec<_> = variants
                .iter()
                .filter_map(|variant| resolve(variant, &members).cloned())
                .collect();
            merge_variants(&mut members, &variants, key == "allOf");
        }
    }
    members.insert("type".to_owned(), json!("object"));
    Json::from(members)
}

/// Whether the schema can stay as it is. Reads only the root, because most schemas can.
fn is_accepted(schema: &Json) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Root {
        r#type: Value,
        one_of: Option<IgnoredAny>,
        any_of: Option<IgnoredAny>,
        all_of: Option<IgnoredAny>,
    }
    serde_json::from_str::<Root>(schema.as_str()).is_ok_and(|root| {
        let has_choice = root.one_of.is_some() || root.any_of.is_some() || root.all_of.is_some();
        root.r#type == "object" && !has_choice
    })
}

/// Follows a reference to a definition in the schema.
fn resolve<'a>(variant: &'a Value, root: &'a Map<String, Value>) -> Option<&'a Map<String, Value>> {
    let variant = variant.as_object()?;
    let Some(name) = variant.get("$ref").and_then(Value::as_str) else {
        return Some(variant);
    };
    let path = name.strip_prefix("#/")?;
    let (section, name) = path.split_once('/')?;
    root.get(section)?.get(name)?.as_object()
}

/// Adds the properties of all variants. A property is required if all variants require it. With
/// `all_apply`, it is required if any variant requires it.
fn merge_variants(
    members: &mut Map<String, Value>,
    variants: &[Map<String, Value>],
    all_apply: bool,
) {
    let mut properties = object_member(members, "properties");
    for (name, property) in variants
        .iter()
        .flat_map(|it| object_member(it, "properties"))
    {
        match properties.get_mut(&name) {
            None => drop(properties.insert(name, property)),
            Some(known) if *known == property => {}
            Some(known) => add_alternative(known, property),
        }
    }
    let mut required = names(members.get("required"));
    let in_variants: Vec<_> = variants
        .iter()
        .map(|it| names(it.get("required")))
        .collect();
    for name in in_variants.iter().flatten() {
        let is_required = all_apply || in_variants.iter().all(|names| names.contains(name));
        if is_required && !required.contains(name) {
            required.push(name.clone());
        }
    }
    members.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        members.insert("required".to_owned(), json!(required));
    }
    // Each variant allows only its own properties.
    members.shift_remove("additionalProperties");
}

/// Turns a property into a choice between its schemas in several variants.
fn add_alternative(known: &mut Value, other: Value) {
    match known.get_mut("anyOf").and_then(Value::as_array_mut) {
        Some(alternatives) if !alternatives.contains(&other) => alternatives.push(other),
        Some(_) => {}
        None => *known = json!({"anyOf": [known.take(), other]}),
    }
}

fn object_member(schema: &Map<String, Value>, key: &str) -> Map<String, Value> {
    let member = schema.get(key).and_then(Value::as_object);
    member.cloned().unwrap_or_default()
}

fn names(list: Option<&Value>) -> Vec<String> {
    let names = list.and_then(Value::as_array).into_iter().flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(schema: &Value) -> Value {
        model_schema(Json::from(schema)).to_value().unwrap()
    }

    #[test]
    fn accepted_schema_keeps_its_bytes() {
        let text = r#"{ "type": "object", "properties": {"a": {"anyOf": [{}, {}]}} }"#;
        assert_eq!(model_schema(Json::parse(text).unwrap()).as_str(), text);
    }

    #[test]
    fn missing_type_is_added() {
        for schema in [json!(true), json!({}), json!({"type": ["object", "null"]})] {
            assert_eq!(converted(&schema), json!({"type": "object"}), "{schema}");
        }
    }

    #[test]
    fn variants_become_properties() {
        let circle = json!({
            "type": "object",
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
            "required": ["kind", "radius"], "additionalProperties": false,
        });
        let schema = json!({
            "$defs": {"Square": {
                "type": "object",
                "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                "required": ["kind", "side"],
            }},
            "oneOf": [circle, {"$ref": "#/$defs/Square"}],
        });
        let merged = converted(&schema);
        assert_eq!(merged["type"], "object");
        assert_eq!(merged["required"], json!(["kind"]));
        assert_eq!(
            merged["properties"],
            json!({
                "kind": {"anyOf": [{"const": "circle"}, {"const": "square"}]},
                "radius": {"type": "number"},
                "side": {"type": "number"},
            })
        );
        assert!(
            CHOICES.iter().all(|key| merged.get(*key).is_none()),
            "{merged}"
        );
    }

    #[test]
    fn all_schemas_of_all_of_apply() {
        let schema = json!({
            "type": "object", "properties": {"a": {}}, "required": ["a"],
            "allOf": [{"properties": {"b": {}}, "required": ["b"]}, {"required": ["a"]}],
        });
        let merged = converted(&schema);
        assert_eq!(merged["required"], json!(["a", "b"]));
        assert_eq!(merged["properties"], json!({"a": {}, "b": {}}));
    }
}
