//! JSON Schema, draft 2020-12, for editors.

use std::ops::RangeInclusive;

use serde_json::{Map, Value as Json, json};

use super::{
    ATTEMPTS, BOUND, COUNT, DEADLINE_KEYS, ENTRY_KEYS, Key, LIMIT_KEYS, MILLIS, SETTINGS_KEYS,
    Shape, TLS_KEYS, TRANSPORT_TYPES,
};
use crate::server_name::ServerName;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Text that can be handed to a program.
const NO_NUL: &str = "^[^\\u0000]*$";
/// What begins as an address does, or is not known before its variables are.
const ADDRESS: &str =
    r"^([Hh][Tt][Tt][Pp][Ss]?://[^/?#:\s\u0000-\u001f][^\s\u0000-\u001f\u007f]*$|.*\$\{)";
const VARIABLE_NAME: &str = "^[^=\\u0000]+$";
const HEADER_NAME: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";
const HEADER_VALUE: &str = "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f]*$";
/// Nothing that acts on a terminal or hides in one; see `text::replace_control_chars`.
const SERVER_NAME: &str =
    "^[^\\u0000-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]*$";

/// What a file with `mcpServers` looks like.
pub fn servers_schema() -> Json {
    document(
        "MCP servers",
        json!({
            "mcpServers": {
                "description": "The servers by name.",
                "type": "object",
                "propertyNames": {
                    "minLength": 1,
                    "maxLength": ServerName::MAX_CHARS,
                    "pattern": SERVER_NAME,
                },
                "additionalProperties": { "$ref": "#/$defs/server" },
            },
        }),
        &json!({ "server": entry_schema() }),
        // Other programs keep other things beside the servers.
        Others::Allowed,
    )
}

/// What a settings file looks like.
pub fn settings_schema() -> Json {
    document(
        "Switchboard settings",
        properties(SETTINGS_KEYS),
        &json!({ "rule": rule_schema(), "servers": server_match_schema() }),
        Others::Refused,
    )
}

/// Whether keys that are not listed may stand in an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Allowed,
    Refused,
}

fn document(title: &str, mut keys: Json, definitions: &Json, others: Others) -> Json {
    if let Json::Object(keys) = &mut keys {
        keys.shift_insert(0, "$schema".to_owned(), json!({ "type": "string" }));
    }
    json!({
        "$schema": DRAFT,
        "title": title,
        // Not of the standard; editors that know them stop complaining about both.
        "allowComments": true,
        "allowTrailingCommas": true,
        "type": "object",
        "properties": keys,
        "additionalProperties": others == Others::Allowed,
        "$defs": definitions,
    })
}

fn entry_schema() -> Json {
    let needs = |kind: &str| match kind {
        "stdio" => json!(["command"]),
        "sdk" => json!([]),
        "claudeai-proxy" => json!(["url", "id"]),
        _ => json!(["url"]),
    };
    let of_type = TRANSPORT_TYPES.map(|kind| {
        json!({
            "if": { "properties": { "type": { "const": kind } }, "required": ["type"] },
            "then": { "required": needs(kind) },
        })
    });
    let mut rules = vec![
        json!({ "not": { "required": ["command", "url"] } }),
        json!({
            "if": { "not": { "required": ["type"] } },
            "then": { "anyOf": [{ "required": ["command"] }, { "required": ["url"] }] },
        }),
    ];
    rules.extend(of_type);
    json!({
        "type": "object",
        "properties": properties(ENTRY_KEYS),
        "additionalProperties": false,
        "allOf": rules,
    })
}

fn properties(keys: &[Key]) -> Json {
    let property = |key: &Key| {
        let mut schema = Map::new();
        schema.insert("description".to_owned(), describe(key).into());
        if let Json::Object(shape) = shape_schema(key.shape) {
            schema.extend(shape);
        }
        if let Ok(example) = serde_json::from_str::<Json>(key.example) {
            schema.insert("examples".to_owned(), json!([example]));
        }
        (key.name.to_owned(), Json::Object(schema))
    };
    Json::Object(keys.iter().map(property).collect())
}

fn describe(key: &Key) -> String {
    match key.default {
        "" => key.meaning.to_owned(),
        default => format!("{} If not written: {default}.", key.meaning),
    }
}

fn shape_schema(shape: Shape) -> Json {
    match shape {
        Shape::Type => json!({ "enum": TRANSPORT_TYPES }),
        Shape::Text => json!({ "type": "string", "pattern": NO_NUL }),
        Shape::Word => json!({ "type": "string", "minLength": 1, "pattern": NO_NUL }),
        Shape::Address => json!({ "type": "string", "pattern": ADDRESS }),
        Shape::Texts => json!({
            "type": "array",
            "items": { "type": ["string", "number"], "pattern": NO_NUL },
        }),
        Shape::Variables => by_name(VARIABLE_NAME, NO_NUL),
        Shape::Headers => by_name(HEADER_NAME, HEADER_VALUE),
        Shape::AllOrNames => json!({
            "anyOf": [{ "const": "all" }, { "type": "array", "items": { "type": "string" } }],
        }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Millis => within(&MILLIS),
        Shape::Count => within(&COUNT),
        Shape::Reconnect => json!({
            "type": "object",
            "properties": { "maxAttempts": within(&ATTEMPTS) },
            "additionalProperties": false,
        }),
        Shape::Tls => json!({
            "type": "object",
            "properties": TLS_KEYS
                .map(|key| (key.to_owned(), json!({ "type": "string", "minLength": 1, "pattern": NO_NUL })))
                .into_iter()
                .collect::<Map<_, _>>(),
            "dependentRequired": { "cert": ["key"], "key": ["cert"] },
            "additionalProperties": false,
        }),
        Shape::Anything => json!({}),
        Shape::Limits => numbers(&LIMIT_KEYS, &BOUND),
        Shape::Deadlines => numbers(&DEADLINE_KEYS, &MILLIS),
        Shape::Names => json!({ "type": "array", "items": { "type": "string" } }),
        Shape::Rules => json!({ "type": "array", "items": { "$ref": "#/$defs/rule" } }),
        Shape::Servers => json!({ "type": "array", "items": { "$ref": "#/$defs/servers" } }),
        Shape::Profile => json!({ "enum": ["local", "server"] }),
    }
}

fn by_name(name: &str, value: &str) -> Json {
    json!({
        "type": "object",
        "propertyNames": { "pattern": name },
        "additionalProperties": { "type": ["string", "number", "boolean"], "pattern": value },
    })
}

/// An object of numbers by name.
fn numbers(keys: &[&str], range: &RangeInclusive<u64>) -> Json {
    let properties = keys.iter().map(|key| ((*key).to_owned(), within(range)));
    json!({
        "type": "object",
        "properties": properties.collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

fn within(range: &RangeInclusive<u64>) -> Json {
    json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
}

fn rule_schema() -> Json {
    json!({
        "type": "object",
        "properties": {
            "tool": {
                "description": "The tools that are meant: `mcp__server__tool`, with `*`, `?` and `[a-z]` as wildcards.",
                "type": "string",
                "minLength": 1,
            },
            "pattern": {
                "description": "Which arguments the rule is for: `name=glob`, or a glob on the JSON of all; of several, all have to fit.",
                "anyOf": [
                    { "type": "string", "minLength": 1 },
                    { "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1 },
                ],
            },
            "hint": {
                "description": "Only tools that claim this of themselves.",
                "enum": ["readOnly", "destructive", "openWorld"],
            },
            "action": {
                "description": "What happens to a call that the rule fits.",
                "enum": ["allow", "ask", "deny"],
            },
        },
        "required": ["tool", "action"],
        "additionalProperties": false,
    })
}

fn server_match_schema() -> Json {
    json!({
        "type": "object",
        "properties": {
            "name": { "description": "The server of this name.", "type": "string", "minLength": 1 },
            "command": {
                "description": "Servers that are started by exactly this command and these arguments.",
                "type": "array",
                "items": { "type": "string" },
                "minItems": 1,
            },
            "url": {
                "description": "Servers at an address that this pattern fits; `*` stands for anything.",
                "type": "string",
                "minLength": 1,
            },
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
    })
}
