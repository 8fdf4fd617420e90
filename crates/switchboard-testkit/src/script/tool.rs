//! The definitions of the tools that a scripted server implements itself.

use serde_json::{Value, json};

/// A well-formed tool definition. The built-in tools are `echo`, `add`, `sleep`, `pid`, `env`,
/// `fds`, `cwd`, `set_resource`, `add_resource`, `remove_resource`, `touch_resources`,
/// `touch_prompts`, `touch_tools`, `updates_flood`, `counts`, `subscribed` and `research`. A
/// built-in tool with arguments gets its input schema; any other tool accepts any object.
pub fn tool(name: &str) -> Value {
    let text = || json!({"type": "string"});
    let (properties, required) = match name {
        "echo" => (json!({"message": text()}), json!(["message"])),
        "add" => (
            json!({"a": {"type": "number"}, "b": {"type": "number"}}),
            json!(["a", "b"]),
        ),
        "sleep" => (
            json!({"ms": {"type": "integer", "minimum": 0}}),
            json!(["ms"]),
        ),
        "set_resource" | "add_resource" => (
            json!({"uri": text(), "text": text()}),
            json!(["uri", "text"]),
        ),
        "remove_resource" => (json!({"uri": text()}), json!(["uri"])),
        "updates_flood" => (
            json!({
                "uri": text(),
                "method": text(),
                "count": {"type": "integer", "minimum": 0},
                "perSecond": {"type": "integer", "minimum": 1},
            }),
            json!(["count"]),
        ),
        "research" => (
            json!({
                "topic": text(),
                "steps": {"type": "integer", "minimum": 1},
                "ask": {"type": "boolean"},
                "fail": {"type": "boolean"},
            }),
            json!([]),
        ),
        _ => (json!({}), json!([])),
    };
    let mut tool = json!({
        "name": name,
        "description": format!("The scripted tool {name}."),
        "inputSchema": {"type": "object", "properties": properties, "required": required},
    });
    if let (Some(tool), "research") = (tool.as_object_mut(), name) {
        let support = json!({"taskSupport": "optional"});
        tool.insert("execution".to_owned(), support);
    }
    tool
}
