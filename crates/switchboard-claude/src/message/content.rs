//! The blocks of what a model says and is told.

use serde_json::Value;
use switchboard::mcp::Json;

use crate::fields::Fields;

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Words.
    Text(TextBlock),
    /// What the model thought before it spoke.
    Thinking(ThinkingBlock),
    /// The wish to use a tool.
    ToolUse(ToolUseBlock),
    /// What a tool gave.
    ToolResult(ToolResultBlock),
    /// Anything else.
    Unknown(Json),
}

/// Words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextBlock {
    /// The words.
    pub text: String,
}

/// What the model thought before it spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThinkingBlock {
    /// The thought.
    pub thinking: String,
    /// What proves to the API that the thought is its own.
    pub signature: String,
}

/// The wish to use a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolUseBlock {
    /// The name of this use; the result has the same.
    pub id: String,
    /// The tool: `Read`, `mcp__calculator__add`.
    pub name: String,
    /// What it is to work on.
    pub input: Value,
}

/// What a tool gave.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResultBlock {
    /// The use that it answers.
    pub tool_use_id: String,
    /// Text, or a list of blocks, or null.
    pub content: Value,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResultBlock {
    /// The text of the result; blocks of text are put together line by line.
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
    /// The words, if it is words.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// The wish to use a tool, if it is one.
    pub fn as_tool_use(&self) -> Option<&ToolUseBlock> {
        match self {
            Self::ToolUse(block) => Some(block),
            _ => None,
        }
    }

    /// What a tool gave, if it is that.
    pub fn as_tool_result(&self) -> Option<&ToolResultBlock> {
        match self {
            Self::ToolResult(block) => Some(block),
            _ => None,
        }
    }

    fn of(value: &Value) -> Self {
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

/// The blocks of a message, whose content may be text alone.
pub(super) fn read(message: Fields<'_>) -> Vec<ContentBlock> {
    match message.text("content") {
        Some(text) => vec![ContentBlock::text(text)],
        None => {
            let blocks = message.list("content").iter();
            blocks.map(ContentBlock::of).collect()
        }
    }
}

/// The words of all blocks, if there are any.
pub(super) fn joined(blocks: &[ContentBlock]) -> Option<String> {
    let mut texts = blocks.iter().filter_map(ContentBlock::as_text).peekable();
    texts.peek()?;
    Some(texts.collect())
}
