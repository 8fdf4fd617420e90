//! Tool calls: the [`Call`] builder, its context, and its errors.
//!
//! [`Host::call`](crate::Host::call) creates a [`Call`]. Awaiting it resolves the tool, checks the
//! arguments and the permission, sends the request and renders the result. Invariant: dropping the
//! future cancels the call.

mod approval;
pub(crate) mod batch;
mod delivery;
mod error;
mod pipeline;
mod resolve;

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;

use serde_json::{Map, Value};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::Progress;

pub(crate) use approval::RememberedApproval;
pub(crate) use error::join_violations;
pub use error::{CallError, TimeoutKind};
pub use switchboard_wire::{InvalidMessage, Violation};

pub use crate::call_context::{CallContext, CallOrigin};
pub use switchboard_client::Delivery;

use crate::content::Output;
use crate::host_state::HostState;

/// The arguments of a call, owned or borrowed. An agent that keeps the model's message can pass a
/// reference to the arguments in it.
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

/// A tool call. Await it to make it; drop the future to cancel it.
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

/// How a call is made. An enum, because a call never has both a listener and a remembered approval,
/// and one field instead of two keeps the future small.
enum CallMode<'h> {
    Plain,
    /// Passes progress notifications to the listener.
    WithProgress(OnProgress<'h>),
    /// A poll of a watch: the user is asked once, and long results are not stored.
    Poll(&'h RememberedApproval),
}

impl<'h> CallMode<'h> {
    /// The approval that this call shares with the other polls of its watch.
    fn remembered_approval(&self) -> Option<&'h RememberedApproval> {
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

    /// Makes the call a poll of a watch.
    pub(crate) fn for_watch(mut self, approval: &'h RememberedApproval) -> Self {
        self.mode = CallMode::Poll(approval);
        self
    }

    /// Sets the context of the call, such as its principal and its deadline.
    pub fn context(mut self, context: CallContext) -> Self {
        self.context = context;
        self
    }

    /// Sets a listener for progress notifications. It is called in order, and before the call
    /// returns.
    pub fn on_progress(mut self, listener: impl FnMut(Progress) + Send + 'h) -> Self {
        self.mode = CallMode::WithProgress(Box::new(listener));
        self
    }
}

impl<'h> IntoFuture for Call<'h> {
    type Output = Result<Output, CallError>;
    type IntoFuture = BoxFuture<'h, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        // Borrow: moving the call into the pipeline would store it twice in the future.
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

/// The arguments as an object. `null` becomes an empty object, other values are rejected.
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
