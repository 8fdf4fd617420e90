//! What a model is given of a prompt: its messages, clean and bounded.
//!
//! Invariant: as for results, see [`content`](super): every text is sanitised, and all of them
//! together stay within the budget plus one marker.

use serde::Serialize;

use super::result_store::{ResultHandle, ResultStore};
use super::{Block, FIELD_BYTES, Output, field, present_block};
use crate::limits::Limits;
use crate::mcp::{GetPromptResult, Role};

/// A prompt as a model is given it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RenderedPrompt {
    /// What it is for, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages, in order.
    pub messages: Vec<RenderedMessage>,
    /// What was found out about them that the server did not say.
    pub notes: Vec<String>,
    /// Under which handle the whole text is kept, when it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "whole")]
    pub stored: Option<ResultHandle>,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RenderedMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Block,
}

/// Turns a prompt into what a model is given. Text beyond the budget is cut, and kept by `result_store`.
pub fn render_prompt(
    result: GetPromptResult,
    limits: &Limits,
    result_store: Option<&dyn ResultStore>,
) -> RenderedPrompt {
    let mut media_left = limits.result_media_bytes;
    let (mut roles, mut blocks) = (Vec::new(), Vec::new());
    for message in result.messages {
        let block = present_block(message.content, None, &mut media_left);
        roles.push((message.role, block.as_text().is_some()));
        blocks.push(block);
    }
    let mut output = Output::blocks(blocks);
    if result.left_out > 0 {
        output.notes.push(format!(
            "{} more messages were left out (limit `content_blocks`)",
            result.left_out
        ));
    }
    output.cut_to(limits.result_text_bytes, result_store);
    // Of the texts the last may be gone; what is no text is still there.
    let is_text = |block: &&Block| block.as_text().is_some();
    let mut texts_left = output.blocks.iter().filter(is_text).count();
    roles.retain(|(_, is_text)| {
        let is_there = !is_text || texts_left > 0;
        texts_left = texts_left.saturating_sub(usize::from(*is_text));
        is_there
    });
    let messages = roles.into_iter().zip(output.blocks);
    RenderedPrompt {
        description: (result.description.as_deref())
            .map(|text| field(text, FIELD_BYTES).into_owned()),
        messages: messages
            .map(|((role, _), content)| RenderedMessage { role, content })
            .collect(),
        notes: output.notes,
        stored: output.stored,
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryResultStore;
    use super::*;
    use crate::mcp::{ContentBlock, MediaContent, PromptMessage};

    fn say(role: Role, content: ContentBlock) -> PromptMessage {
        PromptMessage { role, content }
    }

    fn image() -> ContentBlock {
        ContentBlock::Image(MediaContent {
            data: "aGk=".to_owned(),
            mime_type: "image/png".to_owned(),
            annotations: None,
            meta: None,
        })
    }

    fn text(text: &str) -> Block {
        Block::Text {
            text: text.to_owned(),
        }
    }

    #[test]
    fn messages_are_clean_and_keep_their_roles() {
        let result = GetPromptResult {
            description: Some("what\nit is\u{202e}".to_owned()),
            messages: vec![
                say(Role::User, ContentBlock::text("a\u{1b}]0;x\u{7}b")),
                say(Role::Assistant, image()),
            ],
            left_out: 2,
            ..GetPromptResult::default()
        };
        let presented = render_prompt(result, &Limits::default(), None);
        assert_eq!(presented.description.as_deref(), Some("what it is"));
        assert_eq!(presented.messages[0].content, text("ab"));
        let roles: Vec<_> = presented.messages.iter().map(|said| said.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant]);
        assert_eq!(
            presented.notes,
            ["2 more messages were left out (limit `content_blocks`)"]
        );
    }

    #[test]
    fn what_is_cut_takes_no_role_from_another_message() {
        let result = GetPromptResult {
            messages: vec![
                say(Role::User, ContentBlock::text("12345678")),
                say(Role::Assistant, ContentBlock::text("abcdefgh")),
                say(Role::Assistant, ContentBlock::text("never seen")),
                say(Role::User, image()),
            ],
            ..GetPromptResult::default()
        };
        let mut limits = Limits::default();
        limits.result_text_bytes = 10;
        let result_store = MemoryResultStore::new(1000);
        let presented = render_prompt(result, &limits, Some(&result_store));
        let whole = presented.stored.unwrap();
        let roles: Vec<_> = presented.messages.iter().map(|said| said.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
        let cut =
            format!("a\n[cut: 28 bytes in all, the first 10 shown; the whole is kept as {whole}]");
        assert_eq!(presented.messages[1].content, text(&cut));
        assert_eq!(
            result_store.read(&whole).unwrap(),
            "12345678\nabcdefgh\nnever seen"
        );
    }
}
