//! JSON Schemas of Rust types, through `schemars`.
//!
//! The schemas equal those that the official SDK's macros generate. They follow draft 2020-12 and
//! leave out the title and description of the root type, because the tool has its own.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use switchboard_wire::mcp::Json;

/// The schema of a type, as a JSON object.
pub(super) fn type_schema<T: JsonSchema>() -> Map<String, Value> {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    std::mem::take(schema.ensure_object())
}

/// A type with the schema of `A` but another type id. With it as the root type, `schemars` puts a
/// recursive `A` into `$defs`. With `A` as the root type, `schemars` would emit `$ref: "#"`, which
/// many clients cannot resolve.
struct RootType<A>(PhantomData<A>);

impl<A: JsonSchema> JsonSchema for RootType<A> {
    fn schema_name() -> Cow<'static, str> {
        A::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        A::json_schema(generator)
    }
}

/// The schema of `A`, the arguments of a tool or prompt. Fails if values of `A` are not JSON
/// objects. The error is a message for the author of the handler.
pub(super) fn arguments_schema<A: JsonSchema>() -> Result<Map<String, Value>, String> {
    let mut schema = type_schema::<RootType<A>>();
    if is_object(&schema) {
        return Ok(schema);
    }
    // An enum with `#[serde(tag)]`: one object per variant. Clients require the type at the root.
    if has_object_variants(&schema) {
        schema.insert("type".to_owned(), json!("object"));
        return Ok(schema);
    }
    Err(format!(
        "the arguments must be a struct with named fields, an enum with `#[serde(tag)]` or a map, but \
         {} is none of them; make it a field of a struct",
        std::any::type_name::<A>()
    ))
}

/// The input schema of a tool without arguments.
pub(super) fn empty_object_schema() -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), json!({}));
    schema
}

/// Whether the schema is a choice between schemas that accept only objects.
fn has_object_variants(schema: &Map<String, Value>) -> bool {
    let variants = schema.get("oneOf").or_else(|| schema.get("anyOf"));
    let variants = variants.and_then(Value::as_array);
    variants.is_some_and(|variants| {
        let is_object_schema = |variant: &Value| variant.as_object().is_some_and(is_object);
        !variants.is_empty() && variants.iter().all(is_object_schema)
    })
}

/// Whether the schema accepts only objects: its `type` is `object`.
pub(super) fn is_object(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_some_and(|it| it == "object")
}

pub(super) fn to_json(schema: Map<String, Value>) -> Json {
    Json::from(&Value::Object(schema))
}
