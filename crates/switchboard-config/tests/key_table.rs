//! The key table and the JSON Schemas made from it.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::{HashMap, HashSet};

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use switchboard_config::key_table::{
    DEADLINE_KEYS, ENTRY_KEYS, Key, KeyGroup, LIMIT_KEYS, SETTINGS_KEYS, entry_tables,
    servers_schema, settings_schema, settings_tables,
};
use switchboard_config::{ConfigSource, ConfigSources, Diagnostic, load};

fn validator(schema: &Value) -> Validator {
    jsonschema::validator_for(schema).unwrap()
}

/// The diagnostics of a file with this text.
fn diagnostics_of(text: &str) -> Vec<Diagnostic> {
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(text.to_owned())],
        ..ConfigSources::default()
    };
    let environment = ["GITHUB_TOKEN", "TOKEN"].map(|name| (name.to_owned(), "x".to_owned()));
    load(&sources, &HashMap::from(environment)).diagnostics
}

fn example(key: &Key) -> Option<Value> {
    (!key.example.is_empty()).then(|| serde_json::from_str(key.example).unwrap())
}

#[test]
fn schemas_are_valid() {
    for schema in [servers_schema(), settings_schema()] {
        assert!(jsonschema::draft202012::meta::is_valid(&schema));
        validator(&schema);
    }
}

#[test]
fn loader_and_schema_accept_every_example() {
    let schema = validator(&servers_schema());
    let mut names = HashSet::new();
    for key in ENTRY_KEYS {
        assert!(names.insert(key.name), "duplicate key {}", key.name);
        let Some(example) = example(key) else {
            continue;
        };
        let mut entry = match key.group {
            KeyGroup::Remote => json!({ "url": "https://example.com" }),
            _ => json!({ "command": "x" }),
        };
        entry[key.name] = example;
        let file = json!({ "mcpServers": { "a": entry } });
        assert_eq!(diagnostics_of(&file.to_string()), [], "{}", key.name);
        assert!(schema.is_valid(&file), "{file}");
    }
}

#[test]
fn settings_examples_match_schema() {
    let schema = validator(&settings_schema());
    let all: Map<String, Value> = SETTINGS_KEYS
        .iter()
        .filter_map(|key| Some((key.name.to_owned(), example(key)?)))
        .collect();
    assert!(schema.is_valid(&Value::Object(all)));
    for wrong in [
        json!({ "permissions": [{ "tool": "mcp__a" }] }),
        json!({ "permissions": [{ "tool": "mcp__a", "action": "perhaps" }] }),
        json!({ "disabledServers": "a" }),
        json!({ "profile": "cloud" }),
        json!({ "deniedServers": [{}] }),
        json!({ "permission": [] }),
    ] {
        assert!(!schema.is_valid(&wrong), "{wrong}");
    }
}

#[test]
fn schema_marks_old_limit_names_as_deprecated() {
    let schema = settings_schema();
    let old = json!({ "limits": { "outboxBytes": 1 }, "deadlines": { "silence": 1 } });
    assert!(validator(&schema).is_valid(&old));
    let limits = &schema["properties"]["limits"]["properties"];
    assert_eq!(limits["outboxBytes"]["deprecated"], true);
    assert_eq!(limits["silence"], Value::Null);
    assert_eq!(limits["writeQueueBytes"]["deprecated"], Value::Null);
}

#[test]
fn schema_rejects_what_loader_warns_about() {
    let schema = validator(&servers_schema());
    for entry in [
        json!({ "command": "x", "comand": "y" }),
        json!({ "command": "x", "environment": {} }),
        json!({ "command": "x", "reconnect": { "maxAttempt": 1 } }),
    ] {
        let file = json!({ "mcpServers": { "a": entry } });
        assert_eq!(diagnostics_of(&file.to_string()).len(), 1, "{file}");
        assert!(!schema.is_valid(&file), "{file}");
    }
    for name in ["", "a\u{7}b", "a\u{200b}b", &"a".repeat(257)] {
        let file = json!({ "mcpServers": { name: { "command": "x" } } });
        assert_eq!(diagnostics_of(&file.to_string()).len(), 1, "{name:?}");
        assert!(!schema.is_valid(&file), "{name:?}");
    }
}

#[test]
fn schema_key_and_foreign_keys_are_accepted() {
    let schema = validator(&servers_schema());
    for file in [
        json!({ "$schema": "./mcp.schema.json", "mcpServers": { "a": { "command": "x" } } }),
        json!({ "$schema": "https://example.com/mcp.schema.json", "mcpServers": {} }),
        json!({ "inputs": [], "mcpServers": {} }),
    ] {
        assert_eq!(diagnostics_of(&file.to_string()), [], "{file}");
        assert!(schema.is_valid(&file), "{file}");
    }
    let settings = json!({ "$schema": "./settings.schema.json", "permissions": [] });
    assert!(validator(&settings_schema()).is_valid(&settings));
}

#[test]
fn every_key_is_documented() {
    for (keys, page) in [
        (ENTRY_KEYS, entry_tables()),
        (SETTINGS_KEYS, settings_tables()),
    ] {
        for key in keys {
            let row = format!("| `{}` | ", key.name);
            assert_eq!(page.matches(&row).count(), 1, "{}", key.name);
        }
        // A `|` inside a cell would start another cell.
        let is_whole = |line: &str| line.matches('|').count() == page_width(&page);
        let rows = page.lines().filter(|line| line.starts_with('|'));
        assert_eq!(rows.filter(|line| !is_whole(line)).count(), 0);
    }
}

/// The documentation of the keys.
const CONFIG_PAGE: &str = include_str!("../../../docs/config.md");

#[test]
fn every_limit_and_deadline_is_documented() {
    for key in LIMIT_KEYS.iter().chain(&DEADLINE_KEYS) {
        assert!(CONFIG_PAGE.contains(&format!("\n| `{key}` | ")), "{key}");
    }
}

#[test]
fn documented_examples_are_valid() {
    let servers = validator(&servers_schema());
    let settings = validator(&settings_schema());
    let blocks = CONFIG_PAGE.split("```json\n").skip(1);
    for block in blocks.map(|block| block.split("```").next().unwrap()) {
        let example: Value = serde_json::from_str(block).unwrap();
        if example.get("mcpServers").is_some() {
            assert!(servers.is_valid(&example), "{block}");
            let text = block.replace("_TOKEN}", "_TOKEN:-x}");
            assert_eq!(diagnostics_of(&text), [], "{block}");
        } else {
            assert!(settings.is_valid(&example), "{block}");
        }
    }
}

fn page_width(page: &str) -> usize {
    let head = page.lines().find(|line| line.starts_with('|')).unwrap();
    head.matches('|').count()
}
