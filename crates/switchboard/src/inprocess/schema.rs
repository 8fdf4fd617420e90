//! Schemas of Rust types, as a model is shown them.
//!
//! The same as the macros of the official SDK make: JSON Schema 2020-12, without the name and the
//! words of the outermost type, which say nothing that the tool's own do not.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::mcp::Json;

/// The schema of a type, as an object.
pub(super) fn of<T: JsonSchema>() -> Map<String, Value> {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    std::mem::take(schema.ensure_object())
}

/// The same as `A`, and yet another type: where `A` has itself in it, it is defined by name, and not by
/// a reference to all of the schema, which many who read schemas do not follow.
struct Outermost<A>(PhantomData<A>);

impl<A: JsonSchema> JsonSchema for Outermost<A> {
    fn schema_name() -> Cow<'static, str> {
        A::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        A::json_schema(generator)
    }
}

/// The schema of a tool's arguments, or what is wrong with the type.
pub(super) fn of_arguments<A: JsonSchema>() -> Result<Map<String, Value>, String> {
    let schema = of::<Outermost<A>>();
    if is_object(&schema) {
        return Ok(schema);
    }
    Err(format!(
        "arguments have names, so their type has to be a struct with named fields or a map, and {} \
         is neither: put it into a field of a struct",
        std::any::type_name::<A>()
    ))
}

/// The schema of no arguments at all.
pub(super) fn of_none() -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), json!({}));
    schema
}

/// Whether values of this schema are objects, whatever else they are.
pub(super) fn is_object(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// Its text.
pub(super) fn to_json(schema: Map<String, Value>) -> Json {
    Json::from(&Value::Object(schema))
}
