//! What a tool costs a model, and what model providers do not take of its schema.
//!
//! Providers refuse a whole request for one bad schema, so this is worth knowing before.

use serde_json::Value;
use switchboard::CatalogTool;
use switchboard::mcp::Tool;

/// Roughly what a model's token is in text.
const BYTES_PER_TOKEN: usize = 4;
/// The longest name of an argument that all take.
const NAME_CHARS: usize = 64;
/// The longest description that all take.
const DESCRIPTION_CHARS: usize = 1024;

/// About how many tokens a model is charged for having the tool.
pub(super) fn tokens(tool: &CatalogTool) -> usize {
    let definition = &tool.definition;
    let description = definition.description.as_deref().unwrap_or_default();
    let schema = definition.input_schema.as_str();
    (tool.wire_name.as_str().len() + description.len() + schema.len()).div_ceil(BYTES_PER_TOKEN)
}

/// What some provider does not take, in words.
pub(super) fn problems(tool: &Tool) -> Vec<String> {
    let mut problems = Vec::new();
    let description = tool.description.as_deref().unwrap_or_default();
    if description.chars().count() > DESCRIPTION_CHARS {
        problems.push(format!(
            "its description is longer than the {DESCRIPTION_CHARS} characters that OpenAI takes"
        ));
    }
    let Ok(schema) = tool.input_schema.to_value() else {
        problems.push("its schema cannot be read".to_owned());
        return problems;
    };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        problems
            .push("its schema is not of type \"object\", which all providers ask for".to_owned());
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        if schema.get(word).is_some() {
            problems.push(format!(
                "its schema has {word} at the top, which Anthropic and OpenAI refuse"
            ));
        }
    }
    look_into(&schema, &mut problems);
    problems
}

/// What may be wrong anywhere in a schema. It is bounded: the listing is.
fn look_into(schema: &Value, problems: &mut Vec<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| look_into(item, problems)),
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            for name in properties
                .into_iter()
                .flat_map(|properties| properties.keys())
            {
                if !is_plain(name) {
                    problems.push(format!(
                        "the argument {name:?} has a name that Anthropic refuses: only letters, \
                         digits, `_`, `.`, `-` and at most {NAME_CHARS} of them"
                    ));
                }
            }
            let is_list = members.get("type").and_then(Value::as_str) == Some("array");
            if is_list && !members.contains_key("items") && !members.contains_key("prefixItems") {
                problems
                    .push("a list in its schema has no `items`, which OpenAI refuses".to_owned());
            }
            if let Some(reference) = members.get("$ref").and_then(Value::as_str)
                && !reference.starts_with('#')
            {
                problems.push(format!(
                    "its schema refers to {reference}, which nobody follows"
                ));
            }
            for member in members.values() {
                look_into(member, problems);
            }
        }
        _ => {}
    }
}

fn is_plain(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    (1..=NAME_CHARS).contains(&name.len()) && name.chars().all(is_plain)
}
