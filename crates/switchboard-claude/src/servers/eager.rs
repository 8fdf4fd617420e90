//! Tools that the model is to see from the beginning, as the CLI wants it said: by each of them.

use serde_json::{Value, json};
use switchboard::mcp::Json;

/// Where a tool says so, among what else it says of itself.
const MARK: &str = "anthropic/alwaysLoad";

/// An answer to `tools/list` in which every tool says so.
pub(super) fn answer(answer: Json) -> Json {
    let Ok(mut value) = answer.to_value() else {
        return answer;
    };
    mark(value.pointer_mut("/result/tools"));
    Json::from(&value)
}

pub(super) fn mark(tools: Option<&mut Value>) {
    let tools = tools.and_then(Value::as_array_mut).into_iter().flatten();
    for tool in tools.filter_map(Value::as_object_mut) {
        let about = tool.entry("_meta").or_insert_with(|| json!({}));
        if let Some(about) = about.as_object_mut() {
            about.insert(MARK.to_owned(), true.into());
        }
    }
}
