//! Turns async and blocking functions of several signatures into one erased handler type.
//!
//! The compiler infers the type parameter `Signature` of the traits. The parameter lets the traits
//! be implemented for each signature.
//!
//! Invariants: the arguments are parsed before the function starts. The function starts when its
//! future is first polled. If the future is dropped before it completes, or the function panics,
//! the cancellation token of the context is cancelled.

use std::future::ready;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use switchboard_wire::mcp::{CallToolResult, ErrorObject};
use switchboard_wire::{BoxFuture, LocalCall};
use tokio::task::spawn_blocking;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use super::arguments;
use super::context::ToolContext;
use super::error::{ToolError, ToolResult};
use super::output::{OutputFormat, OutputShape, ToolOutput};
use super::server::ServerShared;
use super::{panic_error, schema};

/// An async function that can be a tool. It takes no parameters, the arguments, a [`ToolContext`],
/// or the arguments and a [`ToolContext`]. It returns a [`ToolResult`].
///
/// All arguments are in one type with `Deserialize` and `JsonSchema`. See [`ToolOutput`] for the
/// types that a handler can return.
#[diagnostic::on_unimplemented(
    message = "this cannot be the handler of a tool",
    label = "not a handler",
    note = "a handler is `async fn(Arguments) -> ToolResult<Output>`; the parameters can also be none, `ToolContext`, or \
            `(Arguments, ToolContext)`",
    note = "`Arguments` needs `serde::Deserialize` and `schemars::JsonSchema`; `Output` needs `serde::Serialize` and \
            `schemars::JsonSchema`, or consists of `ContentBlock`",
    note = "the parameters of a closure need types: `|pair: Pair| async move {{ Ok(pair.a + pair.b) }}`",
    note = "captured values must be `Send + Sync + 'static`, and the future `Send + 'static`; for a function that is not \
            async use `blocking_tool`"
)]
pub trait ToolHandler<Signature>: Send + Sync + 'static {
    #[doc(hidden)]
    fn into_handler(self) -> ErasedHandler;
}

/// A blocking function that can be a tool. It has one of the signatures of [`ToolHandler`], without
/// `async`.
#[diagnostic::on_unimplemented(
    message = "this cannot be the blocking handler of a tool",
    label = "not a blocking handler",
    note = "a blocking handler is `fn(Arguments) -> ToolResult<Output>`; the parameters can also be none, `ToolContext`, \
            or `(Arguments, ToolContext)`",
    note = "`Arguments` needs `serde::Deserialize` and `schemars::JsonSchema`; `Output` needs `serde::Serialize` and \
            `schemars::JsonSchema`, or consists of `ContentBlock`",
    note = "captured values must be `Send + Sync + 'static`; for an async function use `tool`"
)]
pub trait BlockingHandler<Signature>: Send + Sync + 'static {
    #[doc(hidden)]
    fn into_handler(self) -> ErasedHandler;
}

/// The first parameter of a handler: the arguments of the tool, or a [`ToolContext`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool",
    label = "cannot be the arguments of a tool",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it"
)]
pub trait ToolArguments: Sized + Send + 'static {
    #[doc(hidden)]
    fn schema() -> Result<Map<String, Value>, String>;

    #[doc(hidden)]
    fn extract(input: &mut HandlerInput<'_>) -> ToolResult<Self>;
}

impl<A: DeserializeOwned + JsonSchema + Send + 'static> ToolArguments for A {
    fn schema() -> Result<Map<String, Value>, String> {
        schema::arguments_schema::<A>()
    }

    fn extract(input: &mut HandlerInput<'_>) -> ToolResult<Self> {
        Ok(arguments::parse(input.call.arguments)?)
    }
}

impl ToolArguments for ToolContext {
    fn schema() -> Result<Map<String, Value>, String> {
        Ok(schema::empty_object_schema())
    }

    fn extract(input: &mut HandlerInput<'_>) -> ToolResult<Self> {
        Ok(input.context())
    }
}

/// One call whose handler has not started yet.
#[doc(hidden)]
#[derive(Debug)]
pub struct HandlerInput<'a> {
    call: LocalCall<'a>,
    tool: &'a Arc<str>,
    server: &'a Arc<ServerShared>,
    /// Cancels the token of the context if the call ends without a result. `None` if the handler
    /// takes no [`ToolContext`]; then no token is allocated.
    cancel_guard: Option<DropGuard>,
}

type ToolOutcome = Result<CallToolResult, ErrorObject>;

/// A tool handler whose signature is erased, with its input schema and output format.
#[doc(hidden)]
pub struct ErasedHandler {
    pub(super) input_schema: Result<Map<String, Value>, String>,
    pub(super) output_format: OutputFormat,
    run: Box<dyn Fn(HandlerInput<'_>) -> BoxFuture<'static, ToolOutcome> + Send + Sync>,
}

impl std::fmt::Debug for ErasedHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ErasedHandler").finish_non_exhaustive()
    }
}

impl ErasedHandler {
    /// Creates a handler. `start` extracts the parameters of the function from a call, and returns
    /// the future of the function.
    fn new<T, Kind, Started>(
        input_schema: Result<Map<String, Value>, String>,
        start: impl Fn(&mut HandlerInput<'_>) -> ToolResult<Started> + Send + Sync + 'static,
    ) -> Self
    where
        T: ToolOutput<Kind>,
        Started: Future<Output = ToolResult<T>> + Send + 'static,
    {
        let output_format = T::format();
        let shape = output_format.shape;
        let run = move |mut input: HandlerInput<'_>| match start(&mut input) {
            Ok(started) => input.run(started, shape),
            Err(error) => Box::pin(ready(Ok(error.into()))),
        };
        Self {
            input_schema,
            output_format,
            run: Box::new(run),
        }
    }

    pub(super) fn run(
        &self,
        call: LocalCall<'_>,
        tool: &Arc<str>,
        server: &Arc<ServerShared>,
    ) -> BoxFuture<'static, ToolOutcome> {
        (self.run)(HandlerInput {
            call,
            tool,
            server,
            cancel_guard: None,
        })
    }
}

impl HandlerInput<'_> {
    fn context(&mut self) -> ToolContext {
        let context = ToolContext::new(
            Arc::clone(self.tool),
            std::mem::take(&mut self.call.meta),
            self.call.reporter(),
            Arc::clone(self.server),
        );
        self.cancel_guard = Some(context.cancellation_token().clone().drop_guard());
        context
    }

    fn run<T: ToolOutput<Kind>, Kind>(
        self,
        started: impl Future<Output = ToolResult<T>> + Send + 'static,
        shape: OutputShape,
    ) -> BoxFuture<'static, ToolOutcome> {
        let tool = Arc::clone(self.tool);
        let cancel_guard = self.cancel_guard;
        let work =
            AssertUnwindSafe(async move { started.await?.into_result(shape) }).catch_unwind();
        Box::pin(async move {
            let result = work
                .await
                .map_err(|payload| panic_error(&format!("tool {tool}"), payload.as_ref()))?;
            if let Some(guard) = cancel_guard {
                guard.disarm();
            }
            Ok(result.unwrap_or_else(CallToolResult::from))
        })
    }
}

/// Runs `work` on a thread of tokio's blocking pool. If the returned future is dropped before
/// `work` starts, `work` never runs. If `work` panics, the future panics with the same payload.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> ToolResult<T> + Send + 'static,
) -> ToolResult<T> {
    match AbortOnDropHandle::new(spawn_blocking(work)).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            Err(_) => Err(ToolError::new("the program is shutting down")),
        },
    }
}

impl<F, Fut, T, Kind> ToolHandler<(Kind,)> for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<T>> + Send + 'static,
    T: ToolOutput<Kind>,
{
    fn into_handler(self) -> ErasedHandler {
        let handler = Arc::new(self);
        ErasedHandler::new(Ok(schema::empty_object_schema()), move |_| {
            let handler = Arc::clone(&handler);
            Ok(async move { handler().await })
        })
    }
}

impl<F, Fut, P, T, Kind> ToolHandler<(Kind, P)> for F
where
    F: Fn(P) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<T>> + Send + 'static,
    P: ToolArguments,
    T: ToolOutput<Kind>,
{
    fn into_handler(self) -> ErasedHandler {
        let handler = Arc::new(self);
        ErasedHandler::new(P::schema(), move |input| {
            let (handler, arguments) = (Arc::clone(&handler), P::extract(input)?);
            Ok(async move { handler(arguments).await })
        })
    }
}

impl<F, Fut, P, T, Kind> ToolHandler<(Kind, P, ToolContext)> for F
where
    F: Fn(P, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<T>> + Send + 'static,
    P: ToolArguments,
    T: ToolOutput<Kind>,
{
    fn into_handler(self) -> ErasedHandler {
        let handler = Arc::new(self);
        ErasedHandler::new(P::schema(), move |input| {
            let (handler, arguments) = (Arc::clone(&handler), P::extract(input)?);
            let context = input.context();
            Ok(async move { handler(arguments, context).await })
        })
    }
}

impl<F, T, Kind> BlockingHandler<(Kind,)> for F
where
    F: Fn() -> ToolResult<T> + Send + Sync + 'static,
    T: ToolOutput<Kind> + Send,
{
    fn into_handler(self) -> ErasedHandler {
        let handler = Arc::new(self);
        ErasedHandler::new(Ok(schema::empty_object_schema()), move |_| {
            let handler = Arc::clone(&handler);
            Ok(run_blocking(move || handler()))
        })
    }
}

impl<F, P, T, Kind> BlockingHandler<(Kind, P)> for F
where
    F: Fn(P) -> ToolResult<T> + Send + Sync + 'static,
    P: ToolArguments,
    T: ToolOutput<Kind> + Send,
{
    fn into_handler(self) -> ErasedHandler {
        let handler = Arc::new(self);
        ErasedHandler::new(P::schema(), move |input| {
            let (handler, arguments) = (Arc::clone(&handler), P::extract(input)?);
            Ok(run_blocking(move || handler(arguments)))
        })
    }
}

impl<F, P, T, Kind> BlockingHandler<(Kind, P, ToolContext)> for F
where
    F: Fn(P, ToolContext) -> ToolResult<T> + Send + Sync + 'static,
    P: ToolArguments,
    T: ToolOutput<Kind> + Send,
{
    fn into_handler(self) -> ErasedHandler {
        let handler = Arc::new(self);
        ErasedHandler::new(P::schema(), move |input| {
            let (handler, arguments) = (Arc::clone(&handler), P::extract(input)?);
            let context = input.context();
            Ok(run_blocking(move || handler(arguments, context)))
        })
    }
}
