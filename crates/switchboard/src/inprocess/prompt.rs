//! Prompts of a server in this process: a function that makes messages of its arguments.
//!
//! What can be filled in is read off the schema of the argument's type. It is always text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arguments;
use super::error::ToolResult;
use super::{misuse, schema};
use crate::interact::BoxFuture;
use crate::mcp::{ErrorObject, GetPromptResult, Prompt, PromptArgument, PromptMessage};

/// What a prompt can be: a text that the user says, messages, or a whole result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a prompt says",
    label = "cannot be what a prompt says",
    note = "return `String` for what the user says, `Vec<PromptMessage>`, or a `GetPromptResult`"
)]
pub trait PromptOutput: 'static {
    #[doc(hidden)]
    fn into_result(self) -> GetPromptResult;
}

impl PromptOutput for String {
    fn into_result(self) -> GetPromptResult {
        GetPromptResult::new([PromptMessage::user(self)])
    }
}

impl PromptOutput for &'static str {
    fn into_result(self) -> GetPromptResult {
        GetPromptResult::new([PromptMessage::user(self)])
    }
}

impl PromptOutput for Vec<PromptMessage> {
    fn into_result(self) -> GetPromptResult {
        GetPromptResult::new(self)
    }
}

impl PromptOutput for GetPromptResult {
    fn into_result(self) -> GetPromptResult {
        self
    }
}

/// An async function that can be a prompt: of nothing, or of its arguments, which returns a
/// [`ToolResult`].
#[diagnostic::on_unimplemented(
    message = "this cannot be the handler of a prompt",
    label = "not a handler of a prompt",
    note = "a prompt is `async fn(Arguments) -> ToolResult<Output>` or the same of nothing",
    note = "`Arguments` is a struct of strings with `serde::Deserialize` and `schemars::JsonSchema`; `Output` is `String`, \
            `Vec<PromptMessage>` or `GetPromptResult`"
)]
pub trait PromptHandler<Marks>: Send + Sync + 'static {
    #[doc(hidden)]
    fn into_telling(self) -> Telling;
}

type Told = BoxFuture<'static, ToolResult<GetPromptResult>>;
type Tell = dyn Fn(&Map<String, Value>) -> Result<Told, String> + Send + Sync;

/// The handler of a prompt, of any form.
#[doc(hidden)]
pub struct Telling {
    schema: Result<Map<String, Value>, String>,
    tell: Box<Tell>,
}

impl fmt::Debug for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telling").finish_non_exhaustive()
    }
}

impl<F, Fut, R> PromptHandler<()> for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<R>> + Send + 'static,
    R: PromptOutput,
{
    fn into_telling(self) -> Telling {
        let handler = Arc::new(self);
        let tell = move |_: &Map<String, Value>| -> Result<Told, String> {
            let handler = Arc::clone(&handler);
            Ok(Box::pin(async move { Ok(handler().await?.into_result()) }))
        };
        Telling {
            schema: Ok(schema::of_none()),
            tell: Box::new(tell),
        }
    }
}

impl<F, Fut, A, R> PromptHandler<(A,)> for F
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<R>> + Send + 'static,
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: PromptOutput,
{
    fn into_telling(self) -> Telling {
        let handler = Arc::new(self);
        let tell = move |given: &Map<String, Value>| -> Result<Told, String> {
            let given: A = arguments::read(given)?;
            let handler = Arc::clone(&handler);
            Ok(Box::pin(
                async move { Ok(handler(given).await?.into_result()) },
            ))
        };
        Telling {
            schema: schema::of_arguments::<A>(),
            tell: Box::new(tell),
        }
    }
}

/// A prompt with everything that can be said of it. Where a name, a description and a function are
/// enough, [`InProcessServer::prompt`](super::InProcessServer::prompt) is shorter.
pub struct InProcessPrompt {
    description: Prompt,
    tell: Box<Tell>,
}

impl InProcessPrompt {
    /// A prompt that is an async function of its arguments.
    ///
    /// # Panics
    ///
    /// If the type of the arguments is not a struct, or has fields that cannot be text: whoever
    /// fills in a prompt has nothing else to give.
    #[track_caller]
    pub fn new<Marks>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl PromptHandler<Marks>,
    ) -> Self {
        let mut prompt = Prompt::new(name).description(description);
        let telling = handler.into_telling();
        let arguments = telling.schema.and_then(|schema| fields(&schema));
        prompt.arguments = match arguments {
            Ok(arguments) => arguments,
            Err(why) => misuse(&format!(
                "the prompt {} cannot be registered: {why}",
                prompt.name
            )),
        };
        Self {
            description: prompt,
            tell: telling.tell,
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.description.title = Some(title.into());
        self
    }

    pub(super) fn listed(&self) -> &Prompt {
        &self.description
    }

    pub(super) fn tell(&self, given: &BTreeMap<String, String>) -> Result<Told, ErrorObject> {
        let entries = given.iter();
        let entries = entries.map(|(name, text)| (name.clone(), Value::String(text.clone())));
        (self.tell)(&entries.collect())
            .map_err(|why| ErrorObject::new(ErrorObject::INVALID_PARAMS, why))
    }
}

/// What can be filled in, by the schema.
fn fields(schema: &Map<String, Value>) -> Result<Vec<PromptArgument>, String> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let fields = properties.map(|(name, property)| {
        if !can_be_text(property.get("type")) {
            return Err(format!(
                "what is filled in is text, and the field {name} cannot be: make it a String and read the text"
            ));
        }
        let words = |key| property.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut field = PromptArgument::new(name);
        field.title = words("title");
        field.description = words("description");
        field.required = is_required(name);
        Ok(field)
    });
    fields.collect()
}

/// A type that is told elsewhere, such as that of an enum, is taken on trust.
fn can_be_text(kind: Option<&Value>) -> bool {
    match kind {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(kind) => kind == "string",
        None => true,
    }
}

impl fmt::Debug for InProcessPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessPrompt")
            .field(&self.description)
            .finish()
    }
}
