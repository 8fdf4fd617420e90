//! The schema of a type is the one that the macros of the official SDK make of it.

use std::collections::{BTreeMap, HashMap};

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard::inprocess::LocalServer;

use super::empty;

/// Words of the whole, which are left out
#[derive(Serialize, Deserialize, JsonSchema)]
struct Plain {
    /// A number
    ///
    /// of several lines
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
    /// Nothing in it
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
    #[expect(dead_code, reason = "it is to stand in no schema")]
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
    /// Its words
    from: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Described {
    #[schemars(title = "A title", description = "Other words", example = &"x")]
    field: String,
}

/// The same functions twice: as tools of the SDK's macros, and as ours.
macro_rules! twice {
    ($($name:ident: $kind:ty),* $(,)?) => {
        struct Sdk;

        #[tool_router]
        impl Sdk {
            $(
                #[tool(description = "The same again")]
                async fn $name(&self, Parameters(value): Parameters<$kind>) -> Json<$kind> {
                    Json(value)
                }
            )*

            #[tool(description = "Nothing")]
            async fn nothing(&self) -> String {
                String::new()
            }
        }

        #[test]
        fn schemas_are_those_of_the_official_sdk() {
            let ours = empty()
                $(.tool(stringify!($name), "The same again", |value: $kind| async move { Ok(value) }))*
                .tool("nothing", "Nothing", || async { Ok(String::new()) });
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

twice! {
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
