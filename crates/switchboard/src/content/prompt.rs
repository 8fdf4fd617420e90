//! Renders a prompt for a model: sanitizes and truncates the texts of its messages.
//!
//! Invariant: every text is sanitized. The texts of all messages together have at most
//! `Limits::result_text_bytes` bytes, plus one truncation marker.

use serde::Serialize;
use switchboard_wire::mcp::{GetPromptResult, Role};
use switchboard_wire::text::one_line;

use super::render::BlockRenderer;
use super::truncate::{LimitedText, truncate_texts};
use super::{Block, MAX_FIELD_BYTES, ResultHandle, ResultStore};
use crate::limits::Limits;

/// A prompt whose texts are safe to show to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RenderedPrompt {
    /// The description of the prompt in one line, if the server sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages, in the order in which the server sent them.
    pub messages: Vec<RenderedMessage>,
    /// Remarks of the host: messages that were left out, or a full text that could not be stored.
    pub notes: Vec<String>,
    /// The handle of the full text of all messages. `None` if nothing was cut, or if the full text
    /// was not stored.
    #[serde(rename = "whole", skip_serializing_if = "Option::is_none")]
    pub stored: Option<ResultHandle>,
}

/// One message of a [`RenderedPrompt`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RenderedMessage {
    /// Whether the message is from the user or from the assistant.
    pub role: Role,
    /// The content of the message.
    pub content: Block,
}

/// Renders a prompt. If its texts together exceed `Limits::result_text_bytes`, they are cut, and
/// the full text goes to `store`.
pub fn render_prompt(
    result: GetPromptResult,
    limits: &Limits,
    store: Option<&dyn ResultStore>,
) -> RenderedPrompt {
    let mut renderer = BlockRenderer::new(None, limits, store);
    let description = result.description.as_deref();
    let mut prompt = RenderedPrompt {
        description: description.map(|text| one_line(text, MAX_FIELD_BYTES).into_owned()),
        ..RenderedPrompt::default()
    };
    for message in result.messages {
        prompt.messages.push(RenderedMessage {
            role: message.role,
            content: renderer.render(message.content),
        });
    }
    prompt.notes = renderer.notes();
    if result.left_out > 0 {
        prompt.notes.push(format!(
            "{} more messages were left out (limit `contentBlocks`)",
            result.left_out
        ));
    }
    let blocks = prompt.messages.iter().map(|message| &message.content);
    let texts: Vec<_> = blocks.filter_map(LimitedText::new).collect();
    let truncation = truncate_texts(&texts, limits.result_text_bytes, store);
    if let Some(mut truncation) = truncation {
        truncation.apply(&mut prompt.messages, |message| &mut message.content);
        prompt.notes.extend(truncation.note);
        prompt.stored = truncation.stored;
    }
    prompt
}

#[cfg(test)]
mod tests {
    use super::super::MemoryResultStore;
    use super::*;
    use switchboard_wire::mcp::{ContentBlock, MediaContent, PromptMessage};

    fn message(role: Role, content: ContentBlock) -> PromptMessage {
        PromptMessage::new(role, content)
    }

    fn image() -> ContentBlock {
        ContentBlock::Image(MediaContent::from_base64("aGk=", "image/png"))
    }

    fn text(text: &str) -> Block {
        Block::text(text)
    }

    #[test]
    fn messages_are_sanitized_and_keep_roles() {
        let messages = [
            message(Role::User, ContentBlock::text("a\u{1b}]0;x\u{7}b")),
            message(Role::Assistant, image()),
        ];
        let mut result = GetPromptResult::new(messages).description("two\nlines\u{202e}");
        result.left_out = 2;
        let rendered = render_prompt(result, &Limits::default(), None);
        assert_eq!(rendered.description.as_deref(), Some("two lines"));
        assert_eq!(rendered.messages[0].content, text("ab"));
        let roles: Vec<_> = rendered
            .messages
            .iter()
            .map(|message| message.role)
            .collect();
        assert_eq!(roles, [Role::User, Role::Assistant]);
        assert_eq!(
            rendered.notes,
            [
                "escape sequences or invisible characters were removed from block 1",
                "2 more messages were left out (limit `contentBlocks`)"
            ]
        );
    }

    #[test]
    fn truncation_keeps_roles_of_remaining_messages() {
        let result = GetPromptResult::new([
            message(Role::User, ContentBlock::text("12345678")),
            message(Role::Assistant, ContentBlock::text("abcdefgh")),
            message(Role::Assistant, ContentBlock::text("third text")),
            message(Role::User, image()),
        ]);
        let mut limits = Limits::default();
        limits.result_text_bytes = 10;
        let store = MemoryResultStore::new(1000);
        let rendered = render_prompt(result, &limits, Some(&store));
        let handle = rendered.stored.unwrap();
        let roles: Vec<_> = rendered
            .messages
            .iter()
            .map(|message| message.role)
            .collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
        let cut =
            format!("a\n[truncated: 28 bytes total, first 10 shown; full text stored as {handle}]");
        assert_eq!(rendered.messages[1].content, text(&cut));
        assert_eq!(
            store.read(&handle).unwrap(),
            "12345678\nabcdefgh\nthird text"
        );
    }
}
