//! Functions as the work of a tool.
//!
//! The marks (`Marks`) say which form a function has, and are found by the compiler: they let one
//! method take functions of several forms.
//!
//! Invariants: arguments are read before the work begins, the work begins when it is waited for, and
//! whatever ends it early (a drop, a panic) is seen by what it has started elsewhere.

use std::any::Any;
use std::future::ready;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use super::arguments;
use super::context::ToolContext;
use super::error::{ToolError, ToolResult};
use super::output::{Form, Shape, ToolOutput};
use super::schema;
use super::server::Shared;
use crate::interact::BoxFuture;
use crate::mcp::{CallToolResult, ErrorObject};
use crate::transport::memory::LocalCall;

/// An async function that can be a tool: of nothing, of its arguments, of a [`ToolContext`], or of
/// both, which returns a [`ToolResult`].
///
/// Arguments are one type with `Deserialize` and `JsonSchema`; see [`ToolOutput`] for what can be
/// returned.
#[diagnostic::on_unimplemented(
    message = "this cannot be the handler of a tool",
    label = "not a handler",
    note = "a handler is `async fn(Arguments) -> ToolResult<Output>`, or the same of nothing, of `ToolContext`, or of \
            `(Arguments, ToolContext)`",
    note = "`Arguments` needs `serde::Deserialize` and `schemars::JsonSchema`; `Output` needs `serde::Serialize` and \
            `schemars::JsonSchema`, or is made of `ContentBlock`",
    note = "the parameters of a closure need their types: `|pair: Pair| async move {{ Ok(pair.a + pair.b) }}`",
    note = "what a handler holds must be `Send + Sync + 'static`, and its future `Send + 'static`; a function that is \
            not async goes to `blocking_tool`"
)]
pub trait ToolHandler<Marks>: Send + Sync + 'static {
    #[doc(hidden)]
    fn into_work(self) -> Work;
}

/// A function that can be a tool and takes its time on a thread of its own: the same forms as
/// [`ToolHandler`], without `async`.
#[diagnostic::on_unimplemented(
    message = "this cannot be the blocking handler of a tool",
    label = "not a blocking handler",
    note = "a blocking handler is `fn(Arguments) -> ToolResult<Output>`, or the same of nothing, of `ToolContext`, or \
            of `(Arguments, ToolContext)`",
    note = "`Arguments` needs `serde::Deserialize` and `schemars::JsonSchema`; `Output` needs `serde::Serialize` and \
            `schemars::JsonSchema`, or is made of `ContentBlock`",
    note = "what a handler holds must be `Send + Sync + 'static`; an async function goes to `tool`"
)]
pub trait BlockingHandler<Marks>: Send + Sync + 'static {
    #[doc(hidden)]
    fn into_work(self) -> Work;
}

/// What a handler is given.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool",
    label = "cannot be the arguments of a tool",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it"
)]
pub trait Parameter: Sized + Send + 'static {
    #[doc(hidden)]
    fn schema() -> Result<Map<String, Value>, String>;

    #[doc(hidden)]
    fn take(given: &mut Given<'_>) -> ToolResult<Self>;
}

impl<A: DeserializeOwned + JsonSchema + Send + 'static> Parameter for A {
    fn schema() -> Result<Map<String, Value>, String> {
        schema::of_arguments::<A>()
    }

    fn take(given: &mut Given<'_>) -> ToolResult<Self> {
        Ok(arguments::read(given.call.arguments)?)
    }
}

impl Parameter for ToolContext {
    fn schema() -> Result<Map<String, Value>, String> {
        Ok(schema::of_none())
    }

    fn take(given: &mut Given<'_>) -> ToolResult<Self> {
        Ok(given.context())
    }
}

/// One call, before its work has begun.
#[doc(hidden)]
#[derive(Debug)]
pub struct Given<'a> {
    call: LocalCall<'a>,
    tool: &'a Arc<str>,
    server: &'a Arc<Shared>,
    /// Tells whoever has the context when the call comes to an early end. There is none, and nothing
    /// to pay for, where no context was asked for.
    guard: Option<DropGuard>,
}

type Answer = Result<CallToolResult, ErrorObject>;

/// A handler of any form.
#[doc(hidden)]
pub struct Work {
    pub(super) input: Result<Map<String, Value>, String>,
    pub(super) form: Form,
    run: Box<dyn Fn(Given<'_>) -> BoxFuture<'static, Answer> + Send + Sync>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}

impl Work {
    fn new<T, Kind, Begun>(
        input: Result<Map<String, Value>, String>,
        begin: impl Fn(&mut Given<'_>) -> ToolResult<Begun> + Send + Sync + 'static,
    ) -> Self
    where
        T: ToolOutput<Kind>,
        Begun: Future<Output = ToolResult<T>> + Send + 'static,
    {
        let form = T::form();
        let shape = form.shape;
        let run = move |mut given: Given<'_>| match begin(&mut given) {
            Ok(begun) => given.carry_out(begun, shape),
            Err(error) => Box::pin(ready(Ok(error.into()))),
        };
        Self {
            input,
            form,
            run: Box::new(run),
        }
    }

    pub(super) fn run(
        &self,
        call: LocalCall<'_>,
        tool: &Arc<str>,
        server: &Arc<Shared>,
    ) -> BoxFuture<'static, Answer> {
        (self.run)(Given {
            call,
            tool,
            server,
            guard: None,
        })
    }
}

impl Given<'_> {
    fn context(&mut self) -> ToolContext {
        let context = ToolContext::new(
            Arc::clone(self.tool),
            std::mem::take(&mut self.call.meta),
            self.call.reporter(),
            Arc::clone(self.server),
        );
        self.guard = Some(context.cancellation().clone().drop_guard());
        context
    }

    fn carry_out<T: ToolOutput<Kind>, Kind>(
        self,
        begun: impl Future<Output = ToolResult<T>> + Send + 'static,
        shape: Shape,
    ) -> BoxFuture<'static, Answer> {
        let tool = Arc::clone(self.tool);
        let guard = self.guard;
        let work = AssertUnwindSafe(async move { begun.await?.into_result(shape) }).catch_unwind();
        Box::pin(async move {
            let outcome = work.await.map_err(|payload| {
                let what = format!("the tool {tool}");
                panicked(&what, payload.as_ref())
            })?;
            if let Some(guard) = guard {
                guard.disarm();
            }
            Ok(outcome.unwrap_or_else(CallToolResult::from))
        })
    }
}

/// What is said of a panic: it was the program's own, so that its words are told.
pub(crate) fn panicked(what: &str, payload: &(dyn Any + Send)) -> ErrorObject {
    let words = payload.downcast_ref::<&str>().copied();
    let words = words.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let told = match words {
        Some(words) => format!("{what} panicked: {words}"),
        None => format!("{what} panicked"),
    };
    ErrorObject::new(ErrorObject::INTERNAL, told)
}

/// Does it on one of the threads that may block. What has not begun when nobody waits any more does
/// not begin; its panic goes on here.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> ToolResult<T> + Send + 'static,
) -> ToolResult<T> {
    match AbortOnDropHandle::new(spawn_blocking(work)).await {
        Ok(outcome) => outcome,
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
    fn into_work(self) -> Work {
        let handler = Arc::new(self);
        Work::new(Ok(schema::of_none()), move |_| {
            let handler = Arc::clone(&handler);
            Ok(async move { handler().await })
        })
    }
}

impl<F, Fut, P, T, Kind> ToolHandler<(Kind, P)> for F
where
    F: Fn(P) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<T>> + Send + 'static,
    P: Parameter,
    T: ToolOutput<Kind>,
{
    fn into_work(self) -> Work {
        let handler = Arc::new(self);
        Work::new(P::schema(), move |given| {
            let (handler, given) = (Arc::clone(&handler), P::take(given)?);
            Ok(async move { handler(given).await })
        })
    }
}

impl<F, Fut, P, T, Kind> ToolHandler<(Kind, P, ToolContext)> for F
where
    F: Fn(P, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult<T>> + Send + 'static,
    P: Parameter,
    T: ToolOutput<Kind>,
{
    fn into_work(self) -> Work {
        let handler = Arc::new(self);
        Work::new(P::schema(), move |given| {
            let (handler, first) = (Arc::clone(&handler), P::take(given)?);
            let context = given.context();
            Ok(async move { handler(first, context).await })
        })
    }
}

impl<F, T, Kind> BlockingHandler<(Kind,)> for F
where
    F: Fn() -> ToolResult<T> + Send + Sync + 'static,
    T: ToolOutput<Kind> + Send,
{
    fn into_work(self) -> Work {
        let handler = Arc::new(self);
        Work::new(Ok(schema::of_none()), move |_| {
            let handler = Arc::clone(&handler);
            Ok(on_a_thread(move || handler()))
        })
    }
}

impl<F, P, T, Kind> BlockingHandler<(Kind, P)> for F
where
    F: Fn(P) -> ToolResult<T> + Send + Sync + 'static,
    P: Parameter,
    T: ToolOutput<Kind> + Send,
{
    fn into_work(self) -> Work {
        let handler = Arc::new(self);
        Work::new(P::schema(), move |given| {
            let (handler, given) = (Arc::clone(&handler), P::take(given)?);
            Ok(on_a_thread(move || handler(given)))
        })
    }
}

impl<F, P, T, Kind> BlockingHandler<(Kind, P, ToolContext)> for F
where
    F: Fn(P, ToolContext) -> ToolResult<T> + Send + Sync + 'static,
    P: Parameter,
    T: ToolOutput<Kind> + Send,
{
    fn into_work(self) -> Work {
        let handler = Arc::new(self);
        Work::new(P::schema(), move |given| {
            let (handler, first) = (Arc::clone(&handler), P::take(given)?);
            let context = given.context();
            Ok(on_a_thread(move || handler(first, context)))
        })
    }
}
