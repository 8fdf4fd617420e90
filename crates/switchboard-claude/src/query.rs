//! One question to the CLI, and all that it says.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use serde_json::Value;

use crate::connect::{Ends, connect};
use crate::control::Control;
use crate::error::Error;
use crate::message::Message;
use crate::options::Options;

/// Asks the CLI one thing. It is started when the first message is asked for, and has left when there
/// are no more.
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
    let begin = Step::Begin(Box::new((prompt.into(), options)));
    Query {
        messages: stream::unfold(begin, Step::take).boxed(),
    }
}

/// The messages of one question. Dropped before its end, the CLI is killed with all that it started.
///
/// What the CLI asks meanwhile (tools, permissions, hooks) is answered whether messages are read or
/// not. They are kept until then, up to 256 MiB; beyond that the CLI is ended with an error.
pub struct Query {
    messages: BoxStream<'static, Result<Message, Error>>,
}

impl Query {
    /// The next message; `None` when the CLI has left. After an error there are no more.
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

/// How far a query has come.
enum Step {
    Begin(Box<(Prompt, Options)>),
    Go(Box<Control>),
    Over,
}

impl Step {
    async fn take(self) -> Option<(Result<Message, Error>, Self)> {
        let control = match self {
            Self::Over => return None,
            Self::Go(control) => control,
            Self::Begin(asked) => match begin(&asked.0, &asked.1).await {
                Ok(control) => Box::new(control),
                Err(error) => return Some((Err(error), Self::Over)),
            },
        };
        let message = control.next().await?;
        Some((message, Self::Go(control)))
    }
}

async fn begin(prompt: &Prompt, options: &Options) -> Result<Control, Error> {
    let content = prompt.content()?;
    let control = connect(options, Ends::AfterTurn).await?.control;
    control.say(content, "").await?;
    Ok(control)
}

/// What the model is asked: a text, or blocks of content as the Messages API has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt(Value);

impl Prompt {
    /// Blocks of content: `{"type": "text", …}`, `{"type": "image", …}`.
    pub fn blocks(blocks: impl IntoIterator<Item = Value>) -> Self {
        Self(blocks.into_iter().collect())
    }

    /// As it is sent; blocks that are none would be passed over in silence.
    pub(crate) fn content(&self) -> Result<&Value, Error> {
        let is_block = |block: &Value| block.get("type").is_some_and(Value::is_string);
        match &self.0 {
            Value::Array(blocks) if blocks.is_empty() || !blocks.iter().all(is_block) => {
                Err(Error::Unusable(
                    "a prompt is a text or blocks of content, each an object with a `type`: \
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
