//! Typed messages of the CLI.
//!
//! Invariant: parsing a JSON object never fails. An unknown type becomes [`Message::Unknown`], and
//! a field that is missing or of another type gets its default. Every message keeps its original
//! JSON ([`Message::raw`]), so fields of a newer CLI remain accessible.
//!
//! ```
//! use switchboard_claude::Message;
//!
//! let line = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"42"}]}}"#;
//! let message = Message::parse(line)?;
//! assert_eq!(message.text().as_deref(), Some("42"));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod content;
mod result;
mod system;
#[cfg(test)]
mod tests;

use serde_json::Value;
use switchboard::mcp::Json;

pub use content::{ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock};
pub use result::{PermissionDenial, ResultMessage, Usage};
pub use system::{Init, InitServer, SystemMessage};

use crate::json_fields::Fields;
use crate::lenient_json;

/// One message of the CLI.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// Information about the session: its start, its state, a retry.
    System(SystemMessage),
    /// Output of the model: text, thinking, tool uses. The CLI sends one block per message.
    Assistant(AssistantMessage),
    /// Input of the model: tool results, text.
    User(UserMessage),
    /// The end of a turn.
    Result(Box<ResultMessage>),
    /// A piece of the output of the model, with [`Options::include_partial_messages`].
    ///
    /// [`Options::include_partial_messages`]: crate::Options::include_partial_messages
    StreamEvent(StreamEvent),
    /// A message of another type.
    Unknown(UnknownMessage),
}

/// Output of the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The id of the API message. Several messages of the CLI may be parts of one API message.
    pub id: String,
    /// The model.
    pub model: String,
    /// The content.
    pub content: Vec<ContentBlock>,
    /// Why the model stopped, if that is known yet.
    pub stop_reason: Option<String>,
    /// Tokens used so far.
    pub usage: Usage,
    /// The error, if the API failed.
    pub error: Option<String>,
    /// The tool use that runs the subagent, for messages of a subagent.
    pub parent_tool_use_id: Option<String>,
    /// The id of the session.
    pub session_id: String,
    /// The id of this message.
    pub uuid: Option<String>,
    /// The message as the CLI sent it.
    pub raw: Json,
}

/// Input of the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// The content. A plain string becomes one text block.
    pub content: Vec<ContentBlock>,
    /// The result of a tool before its conversion for the model.
    pub tool_use_result: Option<Json>,
    /// Whether the CLI repeated or generated this message.
    pub is_replay: bool,
    /// The tool use that runs the subagent, for messages to a subagent.
    pub parent_tool_use_id: Option<String>,
    /// The id of the session.
    pub session_id: String,
    /// The id of this message.
    pub uuid: Option<String>,
    /// The message as the CLI sent it.
    pub raw: Json,
}

/// A piece of the output of the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamEvent {
    /// The event of the API, unchanged.
    pub event: Value,
    /// The tool use that runs the subagent, for events of a subagent.
    pub parent_tool_use_id: Option<String>,
    /// The id of the session.
    pub session_id: String,
    /// The id of this message.
    pub uuid: Option<String>,
    /// The message as the CLI sent it.
    pub raw: Json,
}

/// A message of an unknown type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnknownMessage {
    /// Its `type`; empty if that is missing.
    pub kind: String,
    /// The message as the CLI sent it.
    pub raw: Json,
}

impl Message {
    /// Parses a message. Fails only on invalid JSON. Parts that cannot be represented (lone
    /// surrogates, very deep nesting) are replaced; [`Message::raw`] keeps them.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let raw = Json::parse(text)?;
        Ok(Self::from_value(&lenient_json::parse_lossy(text)?, raw))
    }

    fn from_value(value: &Value, raw: Json) -> Self {
        let fields = Fields::of(value);
        let kind = fields.text("type").unwrap_or_default();
        match kind.as_str() {
            "system" => Self::System(SystemMessage::parse(fields, raw)),
            "assistant" => Self::Assistant(AssistantMessage::parse(fields, raw)),
            "user" => Self::User(UserMessage::parse(fields, raw)),
            "result" => Self::Result(Box::new(ResultMessage::parse(fields, raw))),
            "stream_event" => Self::StreamEvent(StreamEvent::parse(fields, raw)),
            _ => Self::Unknown(UnknownMessage { kind, raw }),
        }
    }

    /// The message as the CLI sent it.
    pub fn raw(&self) -> &Json {
        match self {
            Self::System(message) => &message.raw,
            Self::Assistant(message) => &message.raw,
            Self::User(message) => &message.raw,
            Self::Result(message) => &message.raw,
            Self::StreamEvent(message) => &message.raw,
            Self::Unknown(message) => &message.raw,
        }
    }

    /// The id of the session, if the message has one.
    pub fn session_id(&self) -> Option<&str> {
        let id = match self {
            Self::System(message) => &message.session_id,
            Self::Assistant(message) => &message.session_id,
            Self::User(message) => &message.session_id,
            Self::Result(message) => &message.session_id,
            Self::StreamEvent(message) => &message.session_id,
            Self::Unknown(_) => return None,
        };
        Some(id.as_str()).filter(|id| !id.is_empty())
    }

    /// The text of the model in this message, if there is any.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Assistant(message) => message.text(),
            _ => None,
        }
    }

    /// The tool uses in this message.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUseBlock> {
        self.content().iter().filter_map(ContentBlock::as_tool_use)
    }

    /// The tool results in this message.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResultBlock> {
        let blocks = self.content().iter();
        blocks.filter_map(ContentBlock::as_tool_result)
    }

    /// The result, if this message ends a turn.
    pub fn as_result(&self) -> Option<&ResultMessage> {
        match self {
            Self::Result(result) => Some(result),
            _ => None,
        }
    }

    fn content(&self) -> &[ContentBlock] {
        match self {
            Self::Assistant(message) => &message.content,
            Self::User(message) => &message.content,
            _ => &[],
        }
    }
}

impl AssistantMessage {
    fn parse(fields: Fields<'_>, raw: Json) -> Self {
        let message = fields.nested("message");
        Self {
            id: message.text("id").unwrap_or_default(),
            model: message.text("model").unwrap_or_default(),
            content: content::parse(message),
            stop_reason: message.text("stop_reason"),
            usage: Usage::parse(message),
            error: fields.text("error"),
            parent_tool_use_id: fields.text("parent_tool_use_id"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// The text of the model, if there is any.
    pub fn text(&self) -> Option<String> {
        content::joined_text(&self.content)
    }
}

impl UserMessage {
    fn parse(fields: Fields<'_>, raw: Json) -> Self {
        Self {
            content: content::parse(fields.nested("message")),
            tool_use_result: fields.json("tool_use_result"),
            is_replay: fields.flag("isReplay"),
            parent_tool_use_id: fields.text("parent_tool_use_id"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// The text, without tool results.
    pub fn text(&self) -> Option<String> {
        content::joined_text(&self.content)
    }
}

impl StreamEvent {
    fn parse(fields: Fields<'_>, raw: Json) -> Self {
        Self {
            event: fields.value("event").cloned().unwrap_or_default(),
            parent_tool_use_id: fields.text("parent_tool_use_id"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// The type of the event: `message_start`, `content_block_delta` and so on.
    pub fn kind(&self) -> &str {
        let kind = self.event.get("type").and_then(Value::as_str);
        kind.unwrap_or_default()
    }

    /// The next piece of text, if the event carries one.
    pub fn text_delta(&self) -> Option<&str> {
        self.delta("text_delta", "text")
    }

    /// The next piece of thinking, if the event carries one.
    pub fn thinking_delta(&self) -> Option<&str> {
        self.delta("thinking_delta", "thinking")
    }

    /// The next piece of a tool's input (incomplete JSON), if the event carries one.
    pub fn input_delta(&self) -> Option<&str> {
        self.delta("input_json_delta", "partial_json")
    }

    fn delta(&self, kind: &str, key: &str) -> Option<&str> {
        let delta = self.event.get("delta")?;
        if self.kind() != "content_block_delta" || delta.get("type")?.as_str()? != kind {
            return None;
        }
        delta.get(key)?.as_str()
    }
}
