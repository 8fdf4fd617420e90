//! Content blocks of messages to and from the model.

use serde_json::Value;
use switchboard::mcp::Json;

use crate::json_fields::Fields;

/// One block of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextBlock),
    /// Thinking of the model.
    Thinking(ThinkingBlock),
    /// A tool use requested by the model.
    ToolUse(ToolUseBlock),
    /// The result of a tool.
    ToolResult(ToolResultBlock),
    /// A block of another type.
    Unknown(Json),
}

/// Text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextBlock {
    /// The text.
    pub text: String,
}

/// Thinking of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThinkingBlock {
    /// The thinking.
    pub thinking: String,
    /// Signature with which the API verifies its own thinking.
    pub signature: String,
}

/// A tool use requested by the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolUseBlock {
    /// The id of this tool use. Its result carries the same id.
    pub id: String,
    /// The name of the tool: `Read`, `mcp__calculator__add`.
    pub name: String,
    /// The arguments of the tool.
    pub input: Value,
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResultBlock {
    /// The id of the tool use.
    pub tool_use_id: String,
    /// A string, a list of blocks, or null.
    pub content: Value,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResultBlock {
    /// The text of the result. Text blocks are joined with line breaks.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => {
                let texts = blocks
                    .iter()
                    .filter_map(|block| block.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

impl ContentBlock {
    /// The text, if this is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// The tool use, if this block is one.
    pub fn as_tool_use(&self) -> Option<&ToolUseBlock> {
        match self {
            Self::ToolUse(block) => Some(block),
            _ => None,
        }
    }

    /// The tool result, if this block is one.
    pub fn as_tool_result(&self) -> Option<&ToolResultBlock> {
        match self {
            Self::ToolResult(block) => Some(block),
            _ => None,
        }
    }

    fn parse(value: &Value) -> Self {
        let fields = Fields::of(value);
        let known = match fields.text("type").as_deref() {
            Some("text") => fields.text("text").map(Self::text),
            Some("thinking") => fields.text("thinking").map(|thinking| {
                Self::Thinking(ThinkingBlock {
                    thinking,
                    signature: fields.text("signature").unwrap_or_default(),
                })
            }),
            Some("tool_use") => Some(Self::ToolUse(ToolUseBlock {
                id: fields.text("id").unwrap_or_default(),
                name: fields.text("name").unwrap_or_default(),
                input: fields.value("input").cloned().unwrap_or_default(),
            })),
            Some("tool_result") => Some(Self::ToolResult(ToolResultBlock {
                tool_use_id: fields.text("tool_use_id").unwrap_or_default(),
                content: fields.value("content").cloned().unwrap_or_default(),
                is_error: fields.flag("is_error"),
            })),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Unknown(Json::from(value)))
    }

    fn text(text: String) -> Self {
        Self::Text(TextBlock { text })
    }
}

/// Parses the content of a message: a list of blocks, or a plain string.
pub(super) fn parse(message: Fields<'_>) -> Vec<ContentBlock> {
    match message.text("content") {
        Some(text) => vec![ContentBlock::text(text)],
        None => {
            let blocks = message.list("content").iter();
            blocks.map(ContentBlock::parse).collect()
        }
    }
}

/// Joins the text of all blocks; `None` if there is no text block.
pub(super) fn joined_text(blocks: &[ContentBlock]) -> Option<String> {
    let mut texts = blocks.iter().filter_map(ContentBlock::as_text).peekable();
    texts.peek()?;
    Some(texts.collect())
}
