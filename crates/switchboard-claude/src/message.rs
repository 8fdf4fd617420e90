//! What the CLI says: messages, typed as far as they are known.
//!
//! Invariant: reading an object never fails. A type that is not known is [`Message::Unknown`], a field
//! that is missing or of another type has its default, and every message keeps its text as it came
//! ([`Message::raw`]), so nothing that a newer CLI says is out of reach.
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
mod outcome;
mod system;
#[cfg(test)]
mod tests;

use serde_json::Value;
use switchboard::mcp::Json;

pub use content::{ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock};
pub use outcome::{PermissionDenial, ResultMessage, Usage};
pub use system::{Init, InitServer, SystemMessage};

use crate::fields::Fields;
use crate::lenient;

/// One message of the CLI.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// Something about the session: its beginning, its state, a retry.
    System(SystemMessage),
    /// What the model said: text, thoughts, the wish to use a tool. One block comes per message.
    Assistant(AssistantMessage),
    /// What went to the model: results of tools, text.
    User(UserMessage),
    /// The end of a turn.
    Result(Box<ResultMessage>),
    /// A piece of what the model is saying, if [`Options::include_partial_messages`] asks for it.
    ///
    /// [`Options::include_partial_messages`]: crate::Options::include_partial_messages
    StreamEvent(StreamEvent),
    /// Anything else.
    Unknown(UnknownMessage),
}

/// What the model said.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The name of the API's message; several of the CLI's may be parts of one.
    pub id: String,
    /// Who said it.
    pub model: String,
    /// What was said.
    pub content: Vec<ContentBlock>,
    /// Why the model stopped, where that is known already.
    pub stop_reason: Option<String>,
    /// What it cost so far.
    pub usage: Usage,
    /// What went wrong, if this stands for a failure of the API.
    pub error: Option<String>,
    /// The use of a tool within which it was said, by a subagent.
    pub parent_tool_use_id: Option<String>,
    /// The session that it belongs to.
    pub session_id: String,
    /// The name of this message.
    pub uuid: Option<String>,
    /// The message as it came.
    pub raw: Json,
}

/// What went to the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// What was said; text alone is one block of it.
    pub content: Vec<ContentBlock>,
    /// What a tool gave, before it was made fit for the model.
    pub tool_use_result: Option<Json>,
    /// Whether it is repeated or made up by the CLI, and not new.
    pub is_replay: bool,
    /// The use of a tool within which it was said, to a subagent.
    pub parent_tool_use_id: Option<String>,
    /// The session that it belongs to.
    pub session_id: String,
    /// The name of this message.
    pub uuid: Option<String>,
    /// The message as it came.
    pub raw: Json,
}

/// A piece of what the model is saying.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamEvent {
    /// The event of the API, as it is.
    pub event: Value,
    /// The use of a tool within which it is said, by a subagent.
    pub parent_tool_use_id: Option<String>,
    /// The session that it belongs to.
    pub session_id: String,
    /// The name of this message.
    pub uuid: Option<String>,
    /// The message as it came.
    pub raw: Json,
}

/// A message of a type that is not known here.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnknownMessage {
    /// What it calls itself; empty if it does not say.
    pub kind: String,
    /// The message as it came.
    pub raw: Json,
}

impl Message {
    /// Reads a message. Only what is no JSON at all is an error: what cannot be kept of it (half of a
    /// character, nesting without end) is left out, and [`Message::raw`] has it.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let raw = Json::parse(text)?;
        Ok(Self::read(&lenient::outline(text)?, raw))
    }

    /// Reads a message of which the tree has been built.
    pub(crate) fn read(value: &Value, raw: Json) -> Self {
        let fields = Fields::of(value);
        let kind = fields.text("type").unwrap_or_default();
        match kind.as_str() {
            "system" => Self::System(SystemMessage::read(fields, raw)),
            "assistant" => Self::Assistant(AssistantMessage::read(fields, raw)),
            "user" => Self::User(UserMessage::read(fields, raw)),
            "result" => Self::Result(Box::new(ResultMessage::read(fields, raw))),
            "stream_event" => Self::StreamEvent(StreamEvent::read(fields, raw)),
            _ => Self::Unknown(UnknownMessage { kind, raw }),
        }
    }

    /// The message as it came.
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

    /// The session that the message belongs to, where that is known.
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

    /// What the model says in this message, if it says anything.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Assistant(message) => message.text(),
            _ => None,
        }
    }

    /// The uses of tools that the model wishes for in this message.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUseBlock> {
        self.content().iter().filter_map(ContentBlock::as_tool_use)
    }

    /// The results of tools in this message.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResultBlock> {
        let blocks = self.content().iter();
        blocks.filter_map(ContentBlock::as_tool_result)
    }

    /// The result, if this is the end of a turn.
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
    fn read(fields: Fields<'_>, raw: Json) -> Self {
        let message = fields.inside("message");
        Self {
            id: message.text("id").unwrap_or_default(),
            model: message.text("model").unwrap_or_default(),
            content: content::read(message),
            stop_reason: message.text("stop_reason"),
            usage: Usage::read(message),
            error: fields.text("error"),
            parent_tool_use_id: fields.text("parent_tool_use_id"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// What the model says, if there is any text.
    pub fn text(&self) -> Option<String> {
        content::joined(&self.content)
    }
}

impl UserMessage {
    fn read(fields: Fields<'_>, raw: Json) -> Self {
        Self {
            content: content::read(fields.inside("message")),
            tool_use_result: fields.json("tool_use_result"),
            is_replay: fields.flag("isReplay"),
            parent_tool_use_id: fields.text("parent_tool_use_id"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// The text of it, results of tools aside.
    pub fn text(&self) -> Option<String> {
        content::joined(&self.content)
    }
}

impl StreamEvent {
    fn read(fields: Fields<'_>, raw: Json) -> Self {
        Self {
            event: fields.value("event").cloned().unwrap_or_default(),
            parent_tool_use_id: fields.text("parent_tool_use_id"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// What the event calls itself: `message_start`, `content_block_delta` and so on.
    pub fn kind(&self) -> &str {
        let kind = self.event.get("type").and_then(Value::as_str);
        kind.unwrap_or_default()
    }

    /// The next piece of text, if this is one.
    pub fn text_delta(&self) -> Option<&str> {
        self.delta("text_delta", "text")
    }

    /// The next piece of a thought, if this is one.
    pub fn thinking_delta(&self) -> Option<&str> {
        self.delta("thinking_delta", "thinking")
    }

    /// The next piece of a tool's input, as JSON that is not complete yet, if this is one.
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
