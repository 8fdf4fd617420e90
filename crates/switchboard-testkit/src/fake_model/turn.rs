//! The response of the fake model to one request, and its encoding as events.

use serde_json::{Value, json};

/// What the fake model sends in response to one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// A message with these blocks. Its stop reason is `tool_use` if one of the blocks is a tool
    /// use.
    Message(Vec<Block>),
    /// An error of the Messages API.
    Error {
        /// The HTTP status. 529 means "overloaded".
        status: u16,
        /// The error message.
        message: String,
    },
    /// Only the start of a message. The server sends nothing more, and the connection stays open.
    Hang,
    /// A reset of the connection before the first byte of a response.
    Reset,
}

impl Turn {
    /// A message with one text block.
    pub fn text(text: &str) -> Self {
        Self::Message(vec![Block::text(text)])
    }

    /// A message with one tool use.
    pub fn tool(name: &str, input: Value) -> Self {
        Self::Message(vec![Block::tool(name, input)])
    }

    /// A message with several blocks.
    pub fn blocks(blocks: impl IntoIterator<Item = Block>) -> Self {
        Self::Message(blocks.into_iter().collect())
    }

    /// The error that the Messages API sends when it is overloaded.
    pub fn overloaded() -> Self {
        Self::error(529, "Overloaded")
    }

    /// An error of the Messages API.
    pub fn error(status: u16, message: &str) -> Self {
        Self::Error {
            status,
            message: message.to_owned(),
        }
    }
}

/// One content block of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A text block.
    Text(String),
    /// A tool use block; the server assigns the id.
    ToolUse {
        /// The name of the tool, as in the request.
        name: String,
        /// The arguments.
        input: Value,
    },
}

impl Block {
    /// A text block.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// A tool use block.
    pub fn tool(name: &str, input: Value) -> Self {
        Self::ToolUse {
            name: name.to_owned(),
            input,
        }
    }
}

/// The JSON body of an error of the Messages API.
pub(super) fn error_body(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// The event that starts a streamed message.
pub(super) fn start_event(number: u64, model: &str) -> Vec<u8> {
    event(&json!({"type": "message_start", "message": {
        "id": message_id(number), "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 11, "output_tokens": 1},
    }}))
}

/// The body of a response that is not streamed.
pub(super) fn message_json(blocks: &[Block], model: &str, number: impl Fn() -> u64) -> Value {
    let content: Vec<Value> = blocks
        .iter()
        .map(|block| match block {
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::ToolUse { name, input } => {
                json!({"type": "tool_use", "id": tool_use_id(number()), "name": name, "input": input})
            }
        })
        .collect();
    json!({
        "id": message_id(number()), "type": "message", "role": "assistant", "model": model,
        "content": content, "stop_reason": stop_reason(blocks), "stop_sequence": null,
        "usage": {"input_tokens": 11, "output_tokens": 20},
    })
}

fn message_id(number: u64) -> String {
    format!("msg_{number:04}")
}

fn tool_use_id(number: u64) -> String {
    format!("toolu_{number:04}")
}

fn stop_reason(blocks: &[Block]) -> &'static str {
    let uses_tool = |block: &Block| matches!(block, Block::ToolUse { .. });
    if blocks.iter().any(uses_tool) {
        "tool_use"
    } else {
        "end_turn"
    }
}

/// The events of one content block.
pub(super) fn block(index: usize, block: &Block, number: u64) -> Vec<u8> {
    let (start, delta) = match block {
        Block::Text(text) => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text}),
        ),
        Block::ToolUse { name, input } => (
            json!({"type": "tool_use", "id": tool_use_id(number), "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
        ),
    };
    [
        json!({"type": "content_block_start", "index": index, "content_block": start}),
        json!({"type": "content_block_delta", "index": index, "delta": delta}),
        json!({"type": "content_block_stop", "index": index}),
    ]
    .iter()
    .flat_map(event)
    .collect()
}

/// The events that end a streamed message.
pub(super) fn end(blocks: &[Block]) -> Vec<u8> {
    [
        json!({"type": "message_delta", "usage": {"output_tokens": 20},
            "delta": {"stop_reason": stop_reason(blocks), "stop_sequence": null}}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .flat_map(event)
    .collect()
}

fn event(data: &Value) -> Vec<u8> {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}
