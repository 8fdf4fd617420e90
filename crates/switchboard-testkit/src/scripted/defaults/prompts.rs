//! Default response to `prompts/get`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::catalog;
use super::{DefaultResponse, INVALID_PARAMS, Request, complete, insert};

pub(super) fn get(prompts: &[Value], request: &Request, modern: bool) -> DefaultResponse {
    let name = request.subject().unwrap_or_default();
    let is_named = |prompt: &&Value| prompt.get("name").is_some_and(|found| found == name);
    let Some(prompt) = prompts.iter().find(is_named) else {
        return DefaultResponse::error(INVALID_PARAMS, format!("unknown prompt: {name}"));
    };
    let mut values = BTreeMap::new();
    let arguments = prompt.get("arguments").and_then(Value::as_array);
    for argument in arguments.into_iter().flatten() {
        let name = argument.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let given = request.argument(name).and_then(Value::as_str);
        if given.is_none() && argument.get("required") == Some(&json!(true)) {
            return DefaultResponse::error(INVALID_PARAMS, format!("missing argument: {name}"));
        }
        values.insert(name.to_owned(), given.unwrap_or_default().to_owned());
    }
    let mut messages = prompt.get("messages").cloned().unwrap_or_else(|| json!([]));
    fill_all_placeholders(&mut messages, &values);
    let mut result = json!({"messages": messages});
    insert(&mut result, "description", prompt.get("description"));
    DefaultResponse::Result(complete(result, modern))
}

/// Replaces `{name}` placeholders in every string inside a JSON value.
fn fill_all_placeholders(value: &mut Value, values: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => *text = catalog::fill_placeholders(text, values),
        Value::Array(entries) => entries
            .iter_mut()
            .for_each(|entry| fill_all_placeholders(entry, values)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| fill_all_placeholders(field, values)),
        _ => {}
    }
}
