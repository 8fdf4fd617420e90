//! One tool call: who makes it, how it is described, and how it can fail.
//!
//! The way it takes is in `call/pipeline.rs`.

pub(crate) mod arguments {
    //! Moved to `switchboard_wire::schema`.
    pub(crate) use switchboard_wire::schema::{Checked, CompiledSchema, is_checkable};
}
pub(crate) mod batch;
pub(crate) mod pipeline;

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_wire::BoxFuture;

pub use crate::call_context::{CallContext, CallOrigin};
pub use crate::delivery::Delivery;
pub use switchboard_wire::Problem;
pub use switchboard_wire::schema::Violation;

use crate::content::Output;
use crate::host::Host;
use crate::id::{ServerName, ToolId};
use crate::limits::rounded_to_millis;
use crate::mcp::{ErrorObject, Progress, Tool as Description};
use crate::permission::Denial;
use crate::session::unknown_ids_note;
use crate::status::ConnectionStatus;
use crate::sync::lock;

/// Why a call has no result. A tool that says that it failed *has* one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No server offers such a tool.
    #[error("there is no tool {name}{}", did_you_mean(.nearest.as_deref()))]
    UnknownTool {
        /// The name that was asked for.
        name: String,
        /// A tool with a similar name.
        nearest: Option<String>,
    },
    /// The tool's server is not there.
    #[error("server {server} is {status}{}", because(.reason.as_deref()))]
    Unavailable {
        /// Which server.
        server: ServerName,
        /// In which state it is.
        status: ConnectionStatus,
        /// Why.
        reason: Option<String>,
        /// What to do about it.
        hint: Option<String>,
        /// When it is tried again.
        retry_in: Option<Duration>,
    },
    /// The arguments do not fit the tool's schema.
    #[error("the arguments do not fit {tool}: {}", list(.violations))]
    InvalidArguments {
        /// Which tool.
        tool: ToolId,
        /// What does not fit, and where.
        violations: Vec<Violation>,
    },
    /// It may not be called.
    #[error("{tool} was not called: {denial}")]
    Denied {
        /// Which tool.
        tool: ToolId,
        /// Which rule, or whose answer.
        denial: Denial,
    },
    /// The tool is no longer offered as it was when the call was permitted.
    #[error("{tool} was not called: it changed in the meantime")]
    ToolChanged {
        /// Which tool.
        tool: ToolId,
    },
    /// There was no answer in time.
    #[error(
        "{tool}: {}{}{}", time_up(*.after, *.kind), unknown_ids_note(*.saw_unknown_ids),
        fate(*.delivery)
    )]
    TimedOut {
        /// Which tool.
        tool: ToolId,
        /// How long was waited.
        after: Duration,
        /// Which time limit ran out.
        kind: TimeoutKind,
        /// What is known of the call.
        delivery: Delivery,
        /// Whether the server sent responses whose id matches no request.
        saw_unknown_ids: bool,
    },
    /// The call may or may not have been carried out. It is never sent again by itself.
    #[error("{tool} may or may not have been carried out: {reason}")]
    OutcomeUnknown {
        /// Which tool.
        tool: ToolId,
        /// What happened.
        reason: String,
    },
    /// The call never reached the server: it can safely be made again.
    #[error("{tool} was not called: {reason}")]
    NotSent {
        /// Which tool.
        tool: ToolId,
        /// What happened.
        reason: String,
        /// The limit that was crossed, where it was one: a field of [`Limits`](crate::limits::Limits).
        limit: Option<&'static str>,
    },
    /// The server answered with an error.
    #[error("server {} refused {}: {error}", .tool.server, .tool.tool)]
    ErrorResponse {
        /// Which tool.
        tool: ToolId,
        /// The server's words.
        error: ErrorObject,
    },
    /// The server's answer breaks a limit or the protocol.
    #[error("the answer of {tool} cannot be used: {problem}")]
    InvalidResponse {
        /// Which tool.
        tool: ToolId,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

/// The time limit that a call exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// The server sent neither a response nor a progress notification for too long.
    Idle,
    /// The whole call took too long.
    Total,
}

impl CallError {
    /// What is known of the call's fate.
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::OutcomeUnknown { .. } => Delivery::Unknown,
            Self::TimedOut { delivery, .. } => *delivery,
            Self::ErrorResponse { .. } | Self::InvalidResponse { .. } => Delivery::Answered,
            _ => Delivery::NotSent,
        }
    }

    /// The same call may succeed later, and making it again cannot run it twice.
    pub fn is_transient(&self) -> bool {
        self.delivery() == Delivery::NotSent
            && matches!(
                self,
                Self::Unavailable { .. } | Self::NotSent { .. } | Self::TimedOut { .. }
            )
    }

    /// The limit that was crossed, where it was one: a field of [`Limits`](crate::limits::Limits) or
    /// [`Deadlines`](crate::limits::Deadlines).
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::InvalidResponse { problem, .. } => problem.limit(),
            Self::NotSent { limit, .. } => *limit,
            Self::TimedOut {
                kind: TimeoutKind::Idle,
                ..
            } => Some("idle"),
            Self::TimedOut { .. } => Some("call"),
            _ => None,
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unavailable { hint, .. } => hint.clone(),
            _ => None,
        }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default()
}

fn because(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

pub(crate) fn list(violations: &[Violation]) -> String {
    violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn time_up(after: Duration, kind: TimeoutKind) -> String {
    let what = match kind {
        TimeoutKind::Idle => "no activity for",
        TimeoutKind::Total => "no response within",
    };
    format!("{what} {:?}", rounded_to_millis(after))
}

fn fate(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Unknown => "; it may or may not have been carried out",
        Delivery::NotSent => "; it was not sent",
        Delivery::Answered => "",
    }
}

/// The arguments of a call, given or lent: an agent that keeps what its model wrote need not copy
/// it.
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

/// A call that is about to be made: await it. Dropping it cancels the call.
///
/// ```
/// # async fn example(host: switchboard::Host) -> Result<(), switchboard::CallError> {
/// let output = host
///     .call("mcp__calculator__add", serde_json::json!({"a": 15, "b": 27}))
///     .on_progress(|note| eprintln!("{}", note.progress))
///     .await?;
/// assert_eq!(output.to_text(), "42");
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'h> {
    pub(crate) host: &'h Host,
    pub(crate) name: Cow<'h, str>,
    pub(crate) arguments: Cow<'h, Value>,
    pub(crate) context: CallContext,
    pub(crate) manner: Manner<'h>,
}

/// In which way a call is made. One thing or the other, so that it takes the room of one.
pub(crate) enum Manner<'h> {
    /// Somebody wants to know how far it has come.
    Heard(OnProgress<'h>),
    /// Where it is made again and again: it is asked about once, and its result is not kept `run_blocking`.
    Plain(Option<&'h Consent>),
}

impl<'h> Manner<'h> {
    pub(crate) fn watched(&self) -> Option<&'h Consent> {
        match self {
            Self::Plain(consent) => *consent,
            Self::Heard(_) => None,
        }
    }
}

/// What was said to a call that is made again and again.
#[derive(Debug, Default)]
pub(crate) struct Consent(Mutex<Option<Answered>>);

#[derive(Debug)]
struct Answered {
    tool: Arc<Description>,
    outcome: Result<(), Denial>,
    /// How many times somebody was asked.
    times: u32,
}

impl Consent {
    /// A tool that changes again and again is asked about so many times.
    const MOST_TIMES: u32 = 3;

    /// What was said, if anybody was asked. A yes does not cover a tool that has changed since: that
    /// is asked about anew.
    pub(crate) fn given(&self, tool: &Arc<Description>) -> Option<Result<(), Denial>> {
        let consent = lock(&self.0);
        let answered = consent.as_ref()?;
        match &answered.outcome {
            Ok(()) if answered.tool == *tool => Some(Ok(())),
            Ok(()) if answered.times < Self::MOST_TIMES => None,
            Ok(()) => Some(Err(Denial::ToolChanged)),
            denied => Some(denied.clone()),
        }
    }

    pub(crate) fn keep(&self, tool: &Arc<Description>, outcome: &Result<(), Denial>) {
        let mut consent = lock(&self.0);
        let times = consent.as_ref().map_or(0, |answered| answered.times);
        *consent = Some(Answered {
            tool: Arc::clone(tool),
            outcome: outcome.clone(),
            times: times + 1,
        });
    }
}

impl<'h> Call<'h> {
    pub(crate) fn new(host: &'h Host, name: Cow<'h, str>, arguments: Arguments<'h>) -> Self {
        Self {
            host,
            name,
            arguments: arguments.0,
            context: CallContext::default(),
            manner: Manner::Plain(None),
        }
    }

    /// Makes it a call of a watch.
    pub(crate) fn watched(mut self, consent: &'h Consent) -> Self {
        self.manner = Manner::Plain(Some(consent));
        self
    }

    /// Says who makes the call.
    pub fn context(mut self, context: CallContext) -> Self {
        self.context = context;
        self
    }

    /// Is told how far the call has come: in order, and before the answer.
    pub fn on_progress(mut self, listener: impl FnMut(Progress) + Send + 'h) -> Self {
        self.manner = Manner::Heard(Box::new(listener));
        self
    }
}

impl<'h> IntoFuture for Call<'h> {
    type Output = Result<Output, CallError>;
    type IntoFuture = BoxFuture<'h, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        // By reference, because what is moved inside a future takes its room twice.
        Box::pin(async move { pipeline::run(&mut self).await })
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Makes an empty object of no arguments at all, and refuses what is no object.
pub(crate) fn as_object<'a>(
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
