//! Content blocks of messages to and from the model.

use serde_json::Value;
use switchboard::mcp::Json;

use crate::json_fields::Fields;

/// One content block of a message. A message has a list of them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text that the model wrote, or text for the model.
    Text(TextBlock),
    /// Reasoning of the model before its answer.
    Thinking(ThinkingBlock),
    /// The model requests to run a tool.
    ToolUse(ToolUseBlock),
    /// The result of a tool that the model requested.
    ToolResult(ToolResultBlock),
    /// A block of a type that this crate does not know, or a text or thinking block that lacks its
    /// text.
    Unknown(Json),
}

/// A text block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextBlock {
    /// The text.
    pub text: String,
}

/// Reasoning of the model before its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThinkingBlock {
    /// The text of the reasoning.
    pub thinking: String,
    /// A signature with which the Claude API later verifies that it produced this block.
    pub signature: String,
}

/// A request of the model to run a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolUseBlock {
    /// The id of this tool use. The [`ToolResultBlock`] with its result carries the same id.
    pub id: String,
    /// The name of the tool, for example `Read` or `mcp__calculator__add`.
    pub name: String,
    /// The arguments that the model chose for the tool.
    pub input: Value,
}

/// The result of a tool that the model requested.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResultBlock {
    /// The id of the tool use that this result belongs to.
    pub tool_use_id: String,
    /// What the tool returned: a string, a list of blocks, or null.
    pub content: Value,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResultBlock {
    /// The text of the result. If the result is a list, joins its text blocks with line breaks.
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
    /// Returns the text if this is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// Returns the tool use if this is a tool use block.
    pub fn as_tool_use(&self) -> Option<&ToolUseBlock> {
        match self {
            Self::ToolUse(block) => Some(block),
            _ => None,
        }
    }

    /// Returns the tool result if this is a tool result block.
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

/// Parses the content of a message: a list of blocks, or a plain string, which becomes one text
/// block.
pub(super) fn parse(message: Fields<'_>) -> Vec<ContentBlock> {
    match message.text("content") {
        Some(text) => vec![ContentBlock::text(text)],
        None => {
            let blocks = message.list("content").iter();
            blocks.map(ContentBlock::parse).collect()
        }
    }
}

/// Joins the texts of all text blocks. Returns `None` if there is no text block.
pub(super) fn joined_text(blocks: &[ContentBlock]) -> Option<String> {
    let mut texts = blocks.iter().filter_map(ContentBlock::as_text).peekable();
    texts.peek()?;
    Some(texts.collect())
}
