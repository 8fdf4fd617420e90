//! Tool calls: the [`Call`] builder, [`CallContext`] and [`CallError`].
//!
//! [`Host::call`](crate::Host::call) creates a [`Call`]. Awaiting the [`Call`] looks up the tool,
//! checks the arguments and the permission, sends the request and renders the result. Invariant:
//! dropping the future of a [`Call`] cancels the request.

pub(crate) mod batch;
mod delivery;
mod error;
mod pipeline;
mod resolve;
mod watch_approval;

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;

use serde_json::{Map, Value};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::Progress;

pub(crate) use error::join_violations;
pub use error::{CallError, TimeoutKind};
pub use switchboard_wire::{InvalidMessage, Violation};
pub(crate) use watch_approval::WatchApproval;

pub use crate::call_context::{CallContext, CallOrigin, ServerSelection};
pub use switchboard_client::Delivery;
pub use switchboard_client::session::StrayOutput;

use crate::content::Output;
use crate::host_state::HostState;

/// The arguments of a call, owned or borrowed. An agent that keeps the message of the model can
/// pass `&Value` instead of cloning the arguments in that message.
#[derive(Clone, Debug)]
pub struct Arguments<'a>(Cow<'a, Value>);

impl From<Value> for Arguments<'_> {
    fn from(arguments: Value) -> Self {
        Self(Cow::Owned(arguments))
    }
}

impl<'a> From<&'a Value> for Arguments<'a> {
    fn from(arguments: &'a Value) -> Self {
        Self(Cow::Borrowed(arguments))
    }
}

impl From<Map<String, Value>> for Arguments<'_> {
    fn from(arguments: Map<String, Value>) -> Self {
        Self(Cow::Owned(Value::Object(arguments)))
    }
}

type OnProgress<'h> = Box<dyn FnMut(Progress) + Send + 'h>;

/// A tool call. Nothing happens until the call is awaited. Dropping the future cancels the call.
///
/// ```
/// # async fn example(host: switchboard::Host) -> Result<(), switchboard::CallError> {
/// let output = host
///     .call("mcp__calculator__add", serde_json::json!({"a": 15, "b": 27}))
///     .on_progress(|progress| eprintln!("{}", progress.progress))
///     .await?;
/// assert_eq!(output.to_text(), "42");
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'h> {
    host: &'h HostState,
    wire_name: Cow<'h, str>,
    arguments: Cow<'h, Value>,
    context: CallContext,
    mode: CallMode<'h>,
}

/// What a call has in addition to its arguments: a progress listener, or the approval of a watch.
/// No call has both, and one enum instead of two `Option` fields keeps the future small.
enum CallMode<'h> {
    Plain,
    /// Passes each progress notification to this listener.
    WithProgress(OnProgress<'h>),
    /// One poll of a watch. All polls of a watch share the user's answer, so that the user is not
    /// asked for each poll. The result is neither truncated nor stored.
    Poll(&'h WatchApproval),
}

impl<'h> CallMode<'h> {
    /// Returns the approval that all polls of a watch share. `None` if the call is not a poll.
    fn remembered_approval(&self) -> Option<&'h WatchApproval> {
        match self {
            Self::Poll(approval) => Some(approval),
            Self::Plain | Self::WithProgress(_) => None,
        }
    }
}

impl<'h> Call<'h> {
    pub(crate) fn new(
        host: &'h HostState,
        wire_name: Cow<'h, str>,
        arguments: Arguments<'h>,
    ) -> Self {
        Self {
            host,
            wire_name,
            arguments: arguments.0,
            context: CallContext::default(),
            mode: CallMode::Plain,
        }
    }

    /// Turns the call into a poll of the watch that owns `approval`.
    pub(crate) fn for_watch(mut self, approval: &'h WatchApproval) -> Self {
        self.mode = CallMode::Poll(approval);
        self
    }

    /// Sets the context of the call, such as its principal and its deadline.
    pub fn context(mut self, context: CallContext) -> Self {
        self.context = context;
        self
    }

    /// Sets a listener for progress notifications. The listener gets the notifications in the order
    /// in which they arrive, and is never called after the call has returned. If the queue of
    /// `Limits::progress_backlog` notifications is full, the host drops further notifications.
    pub fn on_progress(mut self, listener: impl FnMut(Progress) + Send + 'h) -> Self {
        self.mode = CallMode::WithProgress(Box::new(listener));
        self
    }
}

impl<'h> IntoFuture for Call<'h> {
    type Output = Result<Output, CallError>;
    type IntoFuture = BoxFuture<'h, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        // Passes a reference: if `run` took the call by value, the boxed future would contain two
        // copies of the call.
        Box::pin(async move { pipeline::run(&mut self).await })
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("wire_name", &self.wire_name)
            .finish_non_exhaustive()
    }
}

/// Returns the arguments as a JSON object. Replaces `null` by an empty object. A value that is
/// neither `null` nor an object is a violation.
pub(crate) fn arguments_object<'a>(
    arguments: &'a mut Cow<'_, Value>,
) -> Result<&'a Map<String, Value>, Violation> {
    if arguments.is_null() {
        *arguments = Cow::Owned(Value::Object(Map::new()));
    }
    arguments.as_object().ok_or_else(|| Violation {
        path: String::new(),
        message: "arguments must be a JSON object".to_owned(),
    })
}
