//! One prompt to the CLI and the stream of its messages.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use serde_json::Value;

use crate::control::Control;
use crate::error::Error;
use crate::message::Message;
use crate::options::Options;
use crate::start_cli::{StdinClosing, start_and_initialize};

/// Sends one prompt and returns the messages as a stream. The first poll of the stream starts the
/// CLI. When the stream ends, the CLI has exited.
///
/// ```no_run
/// use switchboard_claude::{Options, query};
///
/// # async fn example() -> Result<(), switchboard_claude::Error> {
/// let mut messages = query("What is 15 + 27?", Options::new().max_turns(3));
/// while let Some(message) = messages.next().await {
///     let message = message?;
///     if let Some(text) = message.text() {
///         println!("{text}");
///     }
///     if let Some(result) = message.as_result() {
///         println!("{} turns", result.num_turns);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub fn query(prompt: impl Into<Prompt>, options: Options) -> Query {
    let state = QueryState::NotStarted(Box::new((prompt.into(), options)));
    Query {
        messages: stream::unfold(state, QueryState::next).boxed(),
    }
}

/// The stream of messages with which the CLI responds to one prompt. Dropping the stream kills the
/// CLI and all processes that it started.
///
/// Requests of the CLI (tools, permissions, hooks) are answered even while no messages are read. Up
/// to 256 MiB of unread messages are queued, or [`Options::max_buffer_size`] if that is larger. If
/// another message does not fit into the queue, the query ends with an error.
pub struct Query {
    messages: BoxStream<'static, Result<Message, Error>>,
}

impl Query {
    /// Returns the next message. Returns `None` after the CLI has exited, or after an error was
    /// returned.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        self.messages.next().await
    }
}

impl Stream for Query {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_next_unpin(context)
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Query")
    }
}

enum QueryState {
    NotStarted(Box<(Prompt, Options)>),
    Running(Box<Control>),
    Done,
}

impl QueryState {
    async fn next(self) -> Option<(Result<Message, Error>, Self)> {
        let control = match self {
            Self::Done => return None,
            Self::Running(control) => control,
            Self::NotStarted(input) => match start(&input.0, &input.1).await {
                Ok(control) => Box::new(control),
                Err(error) => return Some((Err(error), Self::Done)),
            },
        };
        let message = control.next_message().await?;
        Some((message, Self::Running(control)))
    }
}

async fn start(prompt: &Prompt, options: &Options) -> Result<Control, Error> {
    let content = prompt.content()?;
    let control = start_and_initialize(options, StdinClosing::AfterFirstTurn)
        .await?
        .control;
    control.send_prompt(content, "").await?;
    Ok(control)
}

/// A prompt for the model: a text, or content blocks of the Claude Messages API.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt(Value);

impl Prompt {
    /// Creates a prompt from content blocks: `{"type": "text", …}`, `{"type": "image", …}`.
    pub fn blocks(blocks: impl IntoIterator<Item = Value>) -> Self {
        Self(blocks.into_iter().collect())
    }

    /// Returns the prompt as JSON. Fails if the prompt has no content block, or a block without a
    /// `type`, which the CLI would skip without an error.
    pub(crate) fn content(&self) -> Result<&Value, Error> {
        let is_block = |block: &Value| block.get("type").is_some_and(Value::is_string);
        match &self.0 {
            Value::Array(blocks) if blocks.is_empty() || !blocks.iter().all(is_block) => {
                Err(Error::InvalidInput(
                    "invalid prompt: expected text or content blocks with a `type`, such as \
                     `{\"type\": \"text\", \"text\": \"…\"}`"
                        .to_owned(),
                ))
            }
            content => Ok(content),
        }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}
