//! Token estimate of a tool, and the parts of its definition that some model provider rejects.
//!
//! One tool with such a part makes the provider reject the whole request.

use serde_json::Value;
use switchboard::catalog::CatalogTool;
use switchboard::mcp::ToolDefinition;

/// Estimated bytes of text per model token, a rough average for JSON and English.
const BYTES_PER_TOKEN: usize = 4;
/// Longest argument name that all providers accept.
const MAX_NAME_CHARS: usize = 64;
/// Longest description that all providers accept.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Estimates the tokens that the tool definition adds to every model request.
pub(super) fn tokens(tool: &CatalogTool) -> usize {
    let definition = &tool.definition;
    let description = definition.description.as_deref().unwrap_or_default();
    let schema = definition.input_schema.as_str();
    (tool.wire_name.as_str().len() + description.len() + schema.len()).div_ceil(BYTES_PER_TOKEN)
}

/// Returns a message for each part of the definition that some provider rejects.
pub(super) fn problems(tool: &ToolDefinition) -> Vec<String> {
    let mut problems = Vec::new();
    let description = tool.description.as_deref().unwrap_or_default();
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        problems.push(format!(
            "description exceeds OpenAI's limit of {MAX_DESCRIPTION_CHARS} characters"
        ));
    }
    let Ok(schema) = tool.input_schema.to_value() else {
        problems.push("schema is not valid JSON".to_owned());
        return problems;
    };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        problems.push("schema type is not \"object\" (required by all providers)".to_owned());
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if schema.get(keyword).is_some() {
            problems.push(format!(
                "schema has {keyword} at top level (rejected by Anthropic and OpenAI)"
            ));
        }
    }
    collect_nested(&schema, &mut problems);
    problems
}

/// Collects problems that can occur at any depth. The recursion is bounded, because the host limits
/// the depth and size of tool listings.
fn collect_nested(schema: &Value, problems: &mut Vec<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| collect_nested(item, problems)),
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            for name in properties
                .into_iter()
                .flat_map(|properties| properties.keys())
            {
                if !is_accepted(name) {
                    problems.push(format!(
                        "argument name {name:?} is rejected by Anthropic (allowed: at most \
                         {MAX_NAME_CHARS} letters, digits, `_`, `.`, `-`)"
                    ));
                }
            }
            let is_list = members.get("type").and_then(Value::as_str) == Some("array");
            if is_list && !members.contains_key("items") && !members.contains_key("prefixItems") {
                problems
                    .push("schema has an array without `items` (rejected by OpenAI)".to_owned());
            }
            if let Some(reference) = members.get("$ref").and_then(Value::as_str)
                && !reference.starts_with('#')
            {
                problems.push(format!(
                    "schema uses external $ref {reference} (not resolved by any provider)"
                ));
            }
            for member in members.values() {
                collect_nested(member, problems);
            }
        }
        _ => {}
    }
}

fn is_accepted(name: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(is_allowed)
}
