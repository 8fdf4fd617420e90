//! A server that lives in this process.

use serde_json::json;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Tool, ToolAnnotations};
use switchboard::{BoxFuture, LocalCall, LocalServer};

pub(super) struct Calculator;

impl LocalServer for Calculator {
    fn implementation(&self) -> Implementation {
        Implementation::new("calculator", env!("CARGO_PKG_VERSION"))
    }

    fn tools(&self) -> Vec<Tool> {
        let two_numbers = json!({
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        });
        let tool = |name: &str, description: &str| {
            Tool::new(name, (&two_numbers).into())
                .description(description)
                .annotations(ToolAnnotations::read_only())
        };
        vec![
            tool("add", "Adds two numbers"),
            tool("multiply", "Multiplies two numbers"),
        ]
    }

    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let number = |name| call.arguments.get(name).and_then(serde_json::Value::as_f64);
        let numbers = number("a").zip(number("b"));
        let result = numbers.and_then(|(a, b)| match call.tool {
            "add" => Some(a + b),
            "multiply" => Some(a * b),
            _ => None,
        });
        let result = result
            .map(|result| CallToolResult::text(result.to_string()))
            .ok_or_else(|| ErrorObject::new(ErrorObject::INVALID_PARAMS, "two numbers, please"));
        Box::pin(std::future::ready(result))
    }
}
