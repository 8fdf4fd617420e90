//! Renders the JSON Schemas (draft 2020-12) for editors.

use std::ops::RangeInclusive;

use serde_json::{Map, Value as Json, json};

use super::{
    ATTEMPTS_RANGE, COUNT_RANGE, DEADLINE_KEYS, ENTRY_KEYS, Key, LIMIT_KEYS, LIMIT_RANGE,
    RENAMED_KEYS, SETTINGS_KEYS, TIMEOUT_RANGE, TLS_KEYS, TRANSPORT_TYPES, ValueType,
};
use crate::server_name::ServerName;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Text without NUL characters.
const NO_NUL: &str = "^[^\\u0000]*$";
/// An http or https URL, or a text with a variable, whose value is unknown.
const HTTP_URL: &str =
    r"^([Hh][Tt][Tt][Pp][Ss]?://[^/?#:\s\u0000-\u001f][^\s\u0000-\u001f\u007f]*$|.*\$\{)";
const VARIABLE_NAME: &str = "^[^=\\u0000]+$";
const HEADER_NAME: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";
const HEADER_VALUE: &str = "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f]*$";
/// No control characters and no invisible formatting characters; see `text::replace_control_chars`.
const SERVER_NAME: &str =
    "^[^\\u0000-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]*$";

/// The schema of a file with `mcpServers`.
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
        // Other clients store other keys in the same file.
        UnknownKeys::Allowed,
    )
}

/// The schema of a settings file.
pub fn settings_schema() -> Json {
    document(
        "Switchboard settings",
        properties(SETTINGS_KEYS),
        &json!({
            "rule": rule_schema(),
            "claudePermissions": claude_permissions_schema(),
            "servers": server_match_schema(),
        }),
        UnknownKeys::Refused,
    )
}

/// Whether an object may contain unknown keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownKeys {
    Allowed,
    Refused,
}

fn document(title: &str, mut keys: Json, definitions: &Json, unknown: UnknownKeys) -> Json {
    if let Json::Object(keys) = &mut keys {
        keys.shift_insert(0, "$schema".to_owned(), json!({ "type": "string" }));
    }
    json!({
        "$schema": DRAFT,
        "title": title,
        // Not part of the standard: editors that know these keywords accept comments and trailing
        // commas.
        "allowComments": true,
        "allowTrailingCommas": true,
        "type": "object",
        "properties": keys,
        "additionalProperties": unknown == UnknownKeys::Allowed,
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
        if let Json::Object(value_type) = value_schema(key.value_type) {
            schema.extend(value_type);
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
        "" => key.description.to_owned(),
        default => format!("{} Default: {default}.", key.description),
    }
}

fn value_schema(value_type: ValueType) -> Json {
    match value_type {
        ValueType::Type => json!({ "enum": TRANSPORT_TYPES }),
        ValueType::Text => json!({ "type": "string", "pattern": NO_NUL }),
        ValueType::NonEmptyText => json!({ "type": "string", "minLength": 1, "pattern": NO_NUL }),
        ValueType::HttpUrl => json!({ "type": "string", "pattern": HTTP_URL }),
        ValueType::TextList => json!({
            "type": "array",
            "items": { "type": ["string", "number"], "pattern": NO_NUL },
        }),
        ValueType::Variables => by_name(VARIABLE_NAME, NO_NUL),
        ValueType::Headers => by_name(HEADER_NAME, HEADER_VALUE),
        ValueType::AllOrNames => json!({
            "anyOf": [{ "const": "all" }, { "type": "array", "items": { "type": "string" } }],
        }),
        ValueType::Flag => json!({ "type": "boolean" }),
        ValueType::Millis => integer_in_range(&TIMEOUT_RANGE),
        ValueType::Count => integer_in_range(&COUNT_RANGE),
        ValueType::Reconnect => json!({
            "type": "object",
            "properties": { "maxAttempts": integer_in_range(&ATTEMPTS_RANGE) },
            "additionalProperties": false,
        }),
        ValueType::Tls => json!({
            "type": "object",
            "properties": TLS_KEYS
                .map(|key| (key.to_owned(), json!({ "type": "string", "minLength": 1, "pattern": NO_NUL })))
                .into_iter()
                .collect::<Map<_, _>>(),
            "dependentRequired": { "cert": ["key"], "key": ["cert"] },
            "additionalProperties": false,
        }),
        ValueType::AnyValue => json!({}),
        ValueType::Limits => numbers(&LIMIT_KEYS, &LIMIT_RANGE),
        ValueType::Deadlines => numbers(&DEADLINE_KEYS, &TIMEOUT_RANGE),
        ValueType::Names => json!({ "type": "array", "items": { "type": "string" } }),
        ValueType::Rules => json!({
            "anyOf": [
                { "type": "array", "items": { "$ref": "#/$defs/rule" } },
                { "$ref": "#/$defs/claudePermissions" },
            ],
        }),
        ValueType::ServerMatches => {
            json!({ "type": "array", "items": { "$ref": "#/$defs/servers" } })
        }
        ValueType::Profile => json!({ "enum": ["local", "server"] }),
    }
}

fn by_name(name: &str, value: &str) -> Json {
    json!({
        "type": "object",
        "propertyNames": { "pattern": name },
        "additionalProperties": { "type": ["string", "number", "boolean"], "pattern": value },
    })
}

/// The schema of an object of numbers. Old names of keys are deprecated properties.
fn numbers(keys: &[&str], range: &RangeInclusive<u64>) -> Json {
    let current = keys
        .iter()
        .map(|key| ((*key).to_owned(), integer_in_range(range)));
    let renamed = RENAMED_KEYS.iter().filter(|(_, key)| keys.contains(key));
    let deprecated = renamed.map(|(old, key)| {
        let mut schema = integer_in_range(range);
        if let Some(members) = schema.as_object_mut() {
            members.insert("deprecated".to_owned(), true.into());
            members.insert(
                "description".to_owned(),
                format!("Old name of `{key}`.").into(),
            );
        }
        ((*old).to_owned(), schema)
    });
    json!({
        "type": "object",
        "properties": current.chain(deprecated).collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

fn integer_in_range(range: &RangeInclusive<u64>) -> Json {
    json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
}

fn rule_schema() -> Json {
    json!({
        "type": "object",
        "properties": {
            "tool": {
                "description": "Glob pattern of the tools: `mcp__server__tool`, with `*`, `?` and `[a-z]` as wildcards.",
                "type": "string",
                "minLength": 1,
            },
            "pattern": {
                "description": "Patterns for the arguments: `name=glob`, or a glob on the JSON of all arguments. All patterns must match.",
                "anyOf": [
                    { "type": "string", "minLength": 1 },
                    { "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1 },
                ],
            },
            "hint": {
                "description": "Only tools that declare this annotation.",
                "enum": ["readOnly", "destructive", "openWorld"],
            },
            "action": {
                "description": "What happens to a matching call.",
                "enum": ["allow", "ask", "deny"],
            },
        },
        "required": ["tool", "action"],
        "additionalProperties": false,
    })
}

fn claude_permissions_schema() -> Json {
    let tools = json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "description": "The permissions of Claude Code. Entries that name no MCP tool are ignored.",
        "type": "object",
        "properties": { "allow": tools, "ask": tools, "deny": tools },
    })
}

fn server_match_schema() -> Json {
    json!({
        "type": "object",
        "properties": {
            "name": { "description": "The server of this name.", "type": "string", "minLength": 1 },
            "command": {
                "description": "Servers with exactly this command and these arguments.",
                "type": "array",
                "items": { "type": "string" },
                "minItems": 1,
            },
            "url": {
                "description": "Servers whose URL matches this pattern; `*` matches any text.",
                "type": "string",
                "minLength": 1,
            },
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
    })
}
