//! Marks tools of in-process servers as always loaded, in the member `_meta` of each tool.

use serde_json::{Value, json};
use switchboard::mcp::Json;

/// The key in `_meta` that makes the CLI load a tool into the context of the model from the start.
const ALWAYS_LOAD_META: &str = "anthropic/alwaysLoad";

/// Marks every tool in a response to `tools/list` as always loaded.
pub(super) fn mark_response(response: Json) -> Json {
    let Ok(mut value) = response.to_value() else {
        return response;
    };
    mark_tools(value.pointer_mut("/result/tools"));
    Json::from(&value)
}

/// Marks every tool in a list of tools as always loaded. Does nothing if there is no list.
pub(super) fn mark_tools(tools: Option<&mut Value>) {
    let tools = tools.and_then(Value::as_array_mut).into_iter().flatten();
    for tool in tools.filter_map(Value::as_object_mut) {
        let meta = tool.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(ALWAYS_LOAD_META.to_owned(), true.into());
        }
    }
}
