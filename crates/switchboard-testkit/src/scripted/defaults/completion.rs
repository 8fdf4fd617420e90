//! Default response to `completion/complete`: the values of the script's completions that match.

use serde_json::{Value, json};

use super::{DefaultResponse, INVALID_PARAMS, Request, ServerState, complete as mark_complete};
use crate::script::Completion;

/// Maximum number of values per response, set by the protocol.
const MAX_VALUES: usize = 100;

pub(super) fn complete(state: &ServerState, request: &Request, modern: bool) -> DefaultResponse {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let subject = request.params.get("ref");
    let field = |name: &str| text(subject.and_then(|subject| subject.get(name)));
    let catalog = state.platform.catalog();
    let (of, known) = match field("type").as_str() {
        "ref/prompt" => (
            field("name"),
            has(&catalog.prompts(), "name", &field("name")),
        ),
        "ref/resource" => {
            let uri = field("uri");
            let is_known = has(&catalog.templates(), "uriTemplate", &uri) || catalog.has(&uri);
            (uri, is_known)
        }
        other => {
            return DefaultResponse::error(INVALID_PARAMS, format!("unknown kind of ref: {other}"));
        }
    };
    if !known {
        return DefaultResponse::error(INVALID_PARAMS, format!("nothing to complete for: {of}"));
    }
    let argument = request.params.get("argument");
    let argument = |name: &str| text(argument.and_then(|argument| argument.get(name)));
    let (name, typed) = (argument("name"), argument("value"));
    let context = request.params.get("context");
    let context = context.and_then(|context| context.get("arguments"));
    let fits = |completion: &&Completion| {
        let has = |(name, value): (&String, &String)| {
            context.and_then(|context| context.get(name)) == Some(&json!(value))
        };
        completion.of == of && completion.argument == name && completion.context.iter().all(has)
    };
    let script = state.script();
    let rows = script.completions.iter().filter(fits);
    let values = rows.flat_map(|completion| &completion.values);
    let values: Vec<_> = values.filter(|value| value.starts_with(&typed)).collect();
    let first_values: Vec<_> = values.iter().take(MAX_VALUES).collect();
    let completion = json!({
        "values": first_values,
        "total": values.len(),
        "hasMore": values.len() > MAX_VALUES,
    });
    DefaultResponse::Result(mark_complete(json!({"completion": completion}), modern))
}

fn has(entries: &[Value], key: &str, value: &str) -> bool {
    let mut entries = entries.iter();
    entries.any(|entry| entry.get(key).is_some_and(|found| found == value))
}
