//! Typed messages of the CLI.
//!
//! Invariant: parsing a JSON object never fails. An object of unknown type becomes
//! [`Message::Unknown`]. If a member is missing or has an unexpected type, the field gets its
//! default value. Every message keeps its original JSON ([`Message::raw`]), so that members of a
//! newer CLI remain accessible.
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
    /// A report of the CLI on the session: its start, its state, a retry.
    System(SystemMessage),
    /// Output of the model: text, thinking, tool uses. The CLI sends each content block as a
    /// separate message.
    Assistant(AssistantMessage),
    /// Input for the model: tool results, text.
    User(UserMessage),
    /// The end of a turn, with a summary.
    Result(Box<ResultMessage>),
    /// A piece of the output of the model. The CLI sends such pieces only with
    /// [`Options::include_partial_messages`].
    ///
    /// [`Options::include_partial_messages`]: crate::Options::include_partial_messages
    StreamEvent(StreamEvent),
    /// A message of a type that this crate does not know.
    Unknown(UnknownMessage),
}

/// Output of the model, usually with one content block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The id of the API message that this output is part of. Several messages can have the same
    /// id.
    pub id: String,
    /// The name of the model that wrote the output.
    pub model: String,
    /// The content blocks of the output.
    pub content: Vec<ContentBlock>,
    /// Why the model stopped generating; `None` while it is still generating.
    pub stop_reason: Option<String>,
    /// The tokens that the API message has used so far.
    pub usage: Usage,
    /// The kind of error if the API failed; `None` otherwise.
    pub error: Option<String>,
    /// For output of a subagent, the id of the tool use that started the subagent. `None` for the
    /// main conversation.
    pub parent_tool_use_id: Option<String>,
    /// The id of the session.
    pub session_id: String,
    /// The id of this message, a UUID.
    pub uuid: Option<String>,
    /// The whole message as the CLI sent it.
    pub raw: Json,
}

/// Input for the model: a prompt or tool results.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// The content blocks of the input. A plain string becomes one text block.
    pub content: Vec<ContentBlock>,
    /// The result of a tool as structured data, before the CLI converted it into content for the
    /// model.
    pub tool_use_result: Option<Json>,
    /// True if the CLI repeats an earlier message of the conversation, or generated this message
    /// itself.
    pub is_replay: bool,
    /// For input of a subagent, the id of the tool use that started the subagent. `None` for the
    /// main conversation.
    pub parent_tool_use_id: Option<String>,
    /// The id of the session.
    pub session_id: String,
    /// The id of this message, a UUID.
    pub uuid: Option<String>,
    /// The whole message as the CLI sent it.
    pub raw: Json,
}

/// A piece of the model's output while the model generates it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamEvent {
    /// The streaming event of the Claude API, unchanged.
    pub event: Value,
    /// For output of a subagent, the id of the tool use that started the subagent. `None` for the
    /// main conversation.
    pub parent_tool_use_id: Option<String>,
    /// The id of the session.
    pub session_id: String,
    /// The id of this message, a UUID.
    pub uuid: Option<String>,
    /// The whole message as the CLI sent it.
    pub raw: Json,
}

/// A message of a type that this crate does not know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnknownMessage {
    /// The member `type` of the message; empty if it is missing.
    pub kind: String,
    /// The whole message as the CLI sent it.
    pub raw: Json,
}

impl Message {
    /// Parses a message. Fails only on invalid JSON. Parts that cannot be represented (lone
    /// surrogates, numbers out of range, very deep nesting) are replaced; [`Message::raw`] keeps
    /// them.
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

    /// The whole message as the CLI sent it.
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

    /// The id of the session that the message belongs to, if the message has one.
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

    /// The text that the model wrote in this message. `None` if there is none.
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

    /// The result message, if this message is one. It ends a turn.
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

    /// The text that the model wrote in this message. `None` if there is no text block.
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

    /// The text blocks of the input, without tool results. `None` if there is no text block.
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

    /// The next piece of the model's text, if the event carries one.
    pub fn text_delta(&self) -> Option<&str> {
        self.delta("text_delta", "text")
    }

    /// The next piece of the model's thinking, if the event carries one.
    pub fn thinking_delta(&self) -> Option<&str> {
        self.delta("thinking_delta", "thinking")
    }

    /// The next piece of the arguments of a tool use (incomplete JSON), if the event carries one.
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
