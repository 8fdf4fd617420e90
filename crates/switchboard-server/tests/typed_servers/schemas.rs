//! The schemas of typed tools equal those that the official SDK's macros generate.

use std::collections::{BTreeMap, HashMap};

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_server::LocalServer;

use super::empty_server;

/// Doc comment of the root type, which is left out
#[derive(Serialize, Deserialize, JsonSchema)]
struct Plain {
    /// A number
    ///
    /// on several lines
    number: f64,
    text: String,
    truth: bool,
    letter: char,
    small: i8,
    large: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nested {
    plain: Plain,
    again: Box<Plain>,
    deeper: Vec<Deeper>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Deeper {
    children: Vec<Deeper>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Optional {
    text: Option<String>,
    nested: Option<Deeper>,
    list: Option<Vec<u8>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum External {
    /// Without fields
    Unit,
    Tuple(i32, String),
    Fields {
        a: i32,
    },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Internal {
    First { a: i32 },
    SecondOne { b: String },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Number(f64),
    Text(String),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    One(i32),
    Two,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Enums {
    external: External,
    internal: Internal,
    untagged: Untagged,
    adjacent: Adjacent,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Maps {
    sorted: BTreeMap<String, i32>,
    nested: HashMap<String, Deeper>,
    any: serde_json::Map<String, Value>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Defaults {
    #[serde(default)]
    number: i32,
    #[serde(default = "greeting")]
    greeting: String,
}

fn greeting() -> String {
    "hello".to_owned()
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Bounds {
    #[schemars(range(min = 1, max = 100))]
    percent: u8,
    #[schemars(range(min = -1.5))]
    degrees: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Lengths {
    #[schemars(length(min = 1, max = 5))]
    name: String,
    #[schemars(length(max = 3))]
    list: Vec<String>,
    #[schemars(regex(pattern = "^[a-z]+$"))]
    word: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Lists {
    numbers: Vec<i32>,
    pair: (i32, String),
    three: [u8; 3],
    anything: Value,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Renamed {
    first_name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(alias = "old")]
    new_one: i32,
    #[serde(skip)]
    #[expect(dead_code, reason = "must not appear in the schema")]
    hidden: i32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Flat {
    own: i32,
    #[serde(flatten)]
    other: Renaming,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Renaming {
    /// Doc comment
    from: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Described {
    #[schemars(title = "A title", description = "Description", example = &"x")]
    field: String,
}

/// Defines the same tools with the SDK's macros and as typed functions, and compares their schemas.
macro_rules! compare_with_sdk {
    ($($name:ident: $kind:ty),* $(,)?) => {
        struct Sdk;

        #[tool_router]
        impl Sdk {
            $(
                #[tool(description = "Returns its argument")]
                async fn $name(&self, Parameters(value): Parameters<$kind>) -> Json<$kind> {
                    Json(value)
                }
            )*

            #[tool(description = "Takes no arguments")]
            async fn nothing(&self) -> String {
                String::new()
            }
        }

        #[test]
        fn schemas_equal_those_of_the_sdk() {
            let ours = empty_server()
                $(.tool(stringify!($name), "Returns its argument", |value: $kind| async move { Ok(value) }))*
                .tool("nothing", "Takes no arguments", || async { Ok(String::new()) });
            let ours = ours.tools();
            let theirs = Sdk::tool_router();
            assert_eq!(ours.len(), theirs.list_all().len());
            for ours in ours {
                let theirs = theirs.get(&ours.name).unwrap();
                let input = Value::Object((*theirs.input_schema).clone());
                assert_eq!(ours.input_schema.to_value().unwrap(), input, "{}", ours.name);
                let output = theirs.output_schema.as_deref();
                let output = output.map(|schema| Value::Object(schema.clone()));
                let ours_output = ours.output_schema.map(|schema| schema.to_value().unwrap());
                assert_eq!(ours_output, output, "{}", ours.name);
            }
        }
    };
}

compare_with_sdk! {
    plain: Plain,
    nested: Nested,
    deeper: Deeper,
    optional: Optional,
    enums: Enums,
    maps: Maps,
    defaults: Defaults,
    bounds: Bounds,
    lengths: Lengths,
    lists: Lists,
    renamed: Renamed,
    flat: Flat,
    described: Described,
    map: BTreeMap<String, i32>,
}
