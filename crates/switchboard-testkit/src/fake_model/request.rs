//! A client's request to the fake model, and accessors for its parts.

use serde_json::Value;

/// A `POST /v1/messages` request.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The body as received.
    pub body: Value,
}

/// The result of a tool use, as the client sent it to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// The id of the tool use.
    pub id: String,
    /// The content: a string, or a list of blocks.
    pub content: Value,
    /// True if the tool call failed.
    pub is_error: bool,
}

impl ToolOutcome {
    /// The texts of the content, joined to one string.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            content => texts(content),
        }
    }
}

impl ModelRequest {
    /// The name of the requested model.
    pub fn model(&self) -> &str {
        self.text_at("model")
    }

    /// Returns whether the client requests an event stream.
    pub fn is_streamed(&self) -> bool {
        self.body.get("stream") == Some(&Value::Bool(true))
    }

    /// Returns whether the request asks for a single token and no event stream. Clients send such a
    /// request only to check that the model exists.
    pub(super) fn is_probe(&self) -> bool {
        !self.is_streamed() && self.body.get("max_tokens") == Some(&1.into())
    }

    fn text_at(&self, key: &str) -> &str {
        self.body
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn list(&self, key: &str) -> &[Value] {
        let list = self.body.get(key).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// The messages of the conversation, oldest first.
    pub fn messages(&self) -> &[Value] {
        self.list("messages")
    }

    /// The names of the tools in the request.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.list("tools").iter();
        tools
            .filter_map(|tool| tool.get("name")?.as_str())
            .collect()
    }

    /// The definition of the tool with this name; `None` if the request has no such tool.
    pub fn tool(&self, name: &str) -> Option<&Value> {
        let has_name = |tool: &&Value| tool.get("name").is_some_and(|found| found == name);
        self.list("tools").iter().find(has_name)
    }

    /// All tool results of the conversation, oldest first.
    pub fn tool_results(&self) -> Vec<ToolOutcome> {
        let blocks = |message: &Value| match message.get("content") {
            Some(Value::Array(blocks)) => blocks.clone(),
            _ => Vec::new(),
        };
        let all = self.messages().iter().flat_map(blocks);
        all.filter_map(|block| outcome(&block)).collect()
    }

    /// The last tool result of the conversation. Panics if there is none.
    pub fn last_tool_result(&self) -> ToolOutcome {
        let last = self.tool_results().pop();
        last.expect("the conversation has the result of a tool")
    }

    /// All text of the conversation, including the system prompt.
    pub fn all_text(&self) -> String {
        let system = self.body.get("system").unwrap_or(&Value::Null);
        let contents = self.messages().iter().map(|message| message.get("content"));
        let contents = contents.flatten().map(|content| match content {
            Value::String(text) => text.clone(),
            content => texts(content),
        });
        let mut parts = vec![match system {
            Value::String(text) => text.clone(),
            system => texts(system),
        }];
        parts.extend(contents);
        parts.join("\n")
    }
}

fn outcome(block: &Value) -> Option<ToolOutcome> {
    if block.get("type")? != "tool_result" {
        return None;
    }
    Some(ToolOutcome {
        id: block.get("tool_use_id")?.as_str()?.to_owned(),
        content: block.get("content").cloned().unwrap_or_default(),
        is_error: block.get("is_error") == Some(&Value::Bool(true)),
    })
}

/// The texts of a list of content blocks, joined to one string.
fn texts(blocks: &Value) -> String {
    let blocks = blocks.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |block: &Value| block.get("text")?.as_str().map(str::to_owned);
    blocks
        .iter()
        .filter_map(text)
        .collect::<Vec<_>>()
        .join("\n")
}
