//! Prompts of an [`InProcessServer`](super::InProcessServer). Each prompt is a function that turns
//! arguments into messages.
//!
//! The arguments of a prompt come from the schema of the type that its function takes. In MCP,
//! prompt arguments are always strings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::{ErrorObject, GetPromptResult, Prompt, PromptArgument, PromptMessage};

use super::arguments;
use super::error::ToolResult;
use super::{registration_panic, schema};

/// What the function of a prompt can return: a string, which becomes one user message; several
/// messages; or a complete result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a prompt",
    label = "cannot be the result of a prompt",
    note = "return `String` for one user message, `Vec<PromptMessage>`, or a `GetPromptResult`"
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

/// An async function that can be a prompt. It takes no parameters or one struct of arguments, and
/// returns a [`ToolResult`].
#[diagnostic::on_unimplemented(
    message = "this cannot be the handler of a prompt",
    label = "not a prompt handler",
    note = "a prompt handler is `async fn(Arguments) -> ToolResult<Output>` or `async fn() -> ToolResult<Output>`",
    note = "`Arguments` is a struct of strings with `serde::Deserialize` and `schemars::JsonSchema`; `Output` is `String`, \
            `Vec<PromptMessage>` or `GetPromptResult`"
)]
pub trait PromptHandler<Signature>: Send + Sync + 'static {
    #[doc(hidden)]
    fn into_prompt(self) -> ErasedPrompt;
}

type PromptFuture = BoxFuture<'static, ToolResult<GetPromptResult>>;
type PromptFn = dyn Fn(&Map<String, Value>) -> Result<PromptFuture, String> + Send + Sync;

/// A prompt handler whose signature is erased, and the schema of its arguments.
#[doc(hidden)]
pub struct ErasedPrompt {
    schema: Result<Map<String, Value>, String>,
    run: Box<PromptFn>,
}

impl fmt::Debug for ErasedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasedPrompt").finish_non_exhaustive()
    }
}

impl<F, Fut, R> PromptHandler<()> for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<R>> + Send + 'static,
    R: PromptOutput,
{
    fn into_prompt(self) -> ErasedPrompt {
        let handler = Arc::new(self);
        let run = move |_: &Map<String, Value>| -> Result<PromptFuture, String> {
            let handler = Arc::clone(&handler);
            Ok(Box::pin(async move { Ok(handler().await?.into_result()) }))
        };
        ErasedPrompt {
            schema: Ok(schema::empty_object_schema()),
            run: Box::new(run),
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
    fn into_prompt(self) -> ErasedPrompt {
        let handler = Arc::new(self);
        let run = move |arguments: &Map<String, Value>| -> Result<PromptFuture, String> {
            let arguments: A = arguments::parse(arguments)?;
            let handler = Arc::clone(&handler);
            Ok(Box::pin(async move {
                Ok(handler(arguments).await?.into_result())
            }))
        };
        ErasedPrompt {
            schema: schema::arguments_schema::<A>(),
            run: Box::new(run),
        }
    }
}

/// A prompt that can have a title. If name, description and function are enough, use
/// [`InProcessServer::prompt`](super::InProcessServer::prompt).
pub struct InProcessPrompt {
    definition: Prompt,
    run: Box<PromptFn>,
}

impl InProcessPrompt {
    /// Creates a prompt that is an async function of its arguments.
    ///
    /// # Panics
    ///
    /// If the type of the arguments is neither a struct nor a map, or has a field that cannot hold
    /// a string. Clients only send strings.
    #[track_caller]
    pub fn new<Signature>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl PromptHandler<Signature>,
    ) -> Self {
        let mut definition = Prompt::new(name).description(description);
        let prompt = handler.into_prompt();
        let arguments = prompt.schema.and_then(|schema| prompt_arguments(&schema));
        definition.arguments = match arguments {
            Ok(arguments) => arguments,
            Err(why) => registration_panic(&format!(
                "cannot register prompt {}: {why}",
                definition.name
            )),
        };
        Self {
            definition,
            run: prompt.run,
        }
    }

    /// Sets the `title`, which clients display instead of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    pub(super) fn definition(&self) -> &Prompt {
        &self.definition
    }

    /// Parses the arguments and returns the future of the handler. Fails if the arguments are
    /// invalid.
    pub(super) fn run(
        &self,
        arguments: &BTreeMap<String, String>,
    ) -> Result<PromptFuture, ErrorObject> {
        let entries = arguments.iter();
        let entries = entries.map(|(name, text)| (name.clone(), Value::String(text.clone())));
        (self.run)(&entries.collect())
            .map_err(|why| ErrorObject::new(ErrorObject::INVALID_PARAMS, why))
    }
}

/// Turns the properties of a schema into the arguments of a prompt. Fails if a property does not
/// accept strings.
fn prompt_arguments(schema: &Map<String, Value>) -> Result<Vec<PromptArgument>, String> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let arguments = properties.map(|(name, property)| {
        if !accepts_string(property.get("type")) {
            return Err(format!(
                "prompt arguments are strings, but field {name} does not accept one; make it a String \
                 and parse it"
            ));
        }
        let text = |key| property.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut argument = PromptArgument::new(name);
        argument.title = text("title");
        argument.description = text("description");
        argument.required = is_required(name);
        Ok(argument)
    });
    arguments.collect()
}

/// Whether a property with this `type` accepts strings. A property without `type`, such as a `$ref`
/// to an enum, counts as accepting strings.
fn accepts_string(schema_type: Option<&Value>) -> bool {
    match schema_type {
        Some(Value::Array(types)) => types.iter().any(|it| it == "string"),
        Some(schema_type) => schema_type == "string",
        None => true,
    }
}

impl fmt::Debug for InProcessPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessPrompt")
            .field(&self.definition)
            .finish()
    }
}
