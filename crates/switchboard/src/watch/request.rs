//! The request for a watch, the description of a running watch, and the errors of starting a watch.
//!
//! Data only: `watch.rs` checks a request and starts the watch.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::call::{CallContext, Violation, join_violations};
use crate::id::{Principal, ServerName, ToolId, ToolName, WatchId};
use crate::query::QueryError;

/// The polling interval of a request that sets none.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest polling interval. Shorter intervals are rejected.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest polling interval. Longer intervals are shortened, so that adding the interval to an
/// `Instant` cannot overflow.
pub(super) const MAX_INTERVAL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What to watch, how to detect changes, and for whom.
///
/// ```
/// # use std::time::Duration;
/// use switchboard::watch::WatchRequest;
///
/// # async fn example(host: switchboard::Host) -> Result<(), switchboard::watch::WatchError> {
/// let request = WatchRequest::subscription("files", "file:///project/TODO.md")
///     .reason("the user edits it by hand");
/// let watch = host.watch(request).await?;
///
/// let arguments = serde_json::json!({"branch": "main"});
/// let request = WatchRequest::poll_tool("ci", "build_status", arguments)
///     .every(Duration::from_secs(30));
/// host.watch(request).await?;
///
/// for event in host.drain_watch_events() {
///     println!("{}", event.to_text());
/// }
/// host.unwatch(watch.id.as_str());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchRequest {
    /// The name of the server.
    pub server: String,
    /// Whether the server notifies the host or the host polls the server.
    pub kind: WatchKind,
    /// The resource or tool to watch.
    pub target: WatchTarget,
    /// The polling interval, at least one second. A subscription polls at this interval if the
    /// server does not support notifications.
    pub interval: Duration,
    /// Why the target is watched. Included in every event of the watch.
    pub reason: Option<String>,
    /// Who starts the watch. Every poll of a tool is a call with this context, but its origin is
    /// [`CallOrigin::Watch`](crate::call::CallOrigin::Watch).
    pub context: CallContext,
}

impl WatchRequest {
    /// Subscribes to the change notifications of a resource. Polls the resource if the server does
    /// not send notifications.
    pub fn subscription(server: impl Into<String>, uri: impl Into<String>) -> Self {
        let target = WatchTarget::Resource { uri: uri.into() };
        Self::new(server.into(), WatchKind::Subscription, target)
    }

    /// Reads a resource at intervals.
    pub fn poll_resource(server: impl Into<String>, uri: impl Into<String>) -> Self {
        let target = WatchTarget::Resource { uri: uri.into() };
        Self::new(server.into(), WatchKind::Poll, target)
    }

    /// Calls a tool at intervals. `tool` is the name that the server uses, not the wire name.
    /// Arguments that are not an object are ignored.
    ///
    /// Every call passes the permission rules. If a call requires permission, the user is asked
    /// once per watch, and again only if the definition of the tool changes. After three requests,
    /// a further change denies the calls.
    pub fn poll_tool(
        server: impl Into<String>,
        tool: impl Into<ToolName>,
        arguments: impl Into<Value>,
    ) -> Self {
        let target = WatchTarget::Tool {
            name: tool.into(),
            arguments: match arguments.into() {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
        };
        Self::new(server.into(), WatchKind::Poll, target)
    }

    fn new(server: String, kind: WatchKind, target: WatchTarget) -> Self {
        Self {
            server,
            kind,
            target,
            interval: DEFAULT_INTERVAL,
            reason: None,
            context: CallContext::default(),
        }
    }

    /// Sets the polling interval.
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets why the target is watched.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets who starts the watch.
    pub fn context(mut self, context: CallContext) -> Self {
        self.context = context;
        self
    }
}

/// How a watch detects changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WatchKind {
    /// The server sends notifications.
    Subscription,
    /// The host reads the resource or calls the tool at intervals.
    Poll,
}

/// The target of a watch: a resource or a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WatchTarget {
    /// A resource.
    Resource {
        /// The URI of the resource.
        uri: String,
    },
    /// The result of a tool.
    Tool {
        /// The name that the server uses for the tool, not the wire name.
        name: ToolName,
        /// The arguments of each call.
        arguments: Map<String, Value>,
    },
}

impl WatchTarget {
    /// The URI of the resource, or the name of the tool.
    pub fn name(&self) -> &str {
        match self {
            Self::Resource { uri } => uri,
            Self::Tool { name, .. } => name.as_str(),
        }
    }
}

impl fmt::Display for WatchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource { uri } => write!(f, "resource {uri}"),
            Self::Tool { name, .. } => write!(f, "tool {name}"),
        }
    }
}

/// A running watch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Watch {
    /// The id, such as `sub-1` or `poll-2`. No two watches of a host have the same number.
    pub id: WatchId,
    /// The kind of the [`WatchRequest`].
    pub kind: WatchKind,
    /// The kind in use. Differs from the requested kind if a subscription is polled because the
    /// server does not send notifications.
    #[serde(rename = "means")]
    pub effective_kind: WatchKind,
    /// Why a subscription is polled. `None` if the watch is not a polled subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether the host has read the resource or called the tool at least once. The first change is
    /// relative to the content of the first read or call.
    #[serde(rename = "seen")]
    pub has_baseline: bool,
    /// The name of the server.
    pub server: ServerName,
    /// The watched resource or tool.
    pub target: WatchTarget,
    /// The polling interval. Serialized in milliseconds.
    #[serde(rename = "intervalMs", serialize_with = "serialize_millis")]
    pub interval: Duration,
    /// Why the target is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The principal that started the watch.
    #[serde(skip)]
    pub principal: Principal,
}

fn serialize_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Why a watch could not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The server is unknown, denied by a rule or not available, or the resource cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The server has no tool of this name.
    #[error(
        "server {server} has no tool {tool}{}",
        nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
    )]
    UnknownTool {
        /// The name of the server.
        server: ServerName,
        /// The tool name in the request.
        tool: ToolName,
        /// A tool of the server with a similar name. `None` if there is none.
        nearest: Option<String>,
    },
    /// The arguments do not match the input schema of the tool.
    #[error("invalid arguments for {tool}: {}", join_violations(.violations))]
    InvalidArguments {
        /// The tool.
        tool: ToolId,
        /// The violations of the schema.
        violations: Vec<Violation>,
    },
    /// The polling interval is shorter than one second.
    #[error("interval {0:?} is too short: the minimum is {MIN_INTERVAL:?}")]
    IntervalTooShort(Duration),
    /// The watch was stopped, or its server was removed, before the watch had started.
    #[error("the watch ended before it started")]
    Ended,
    /// The host already has as many watches as the limit `watches` allows.
    #[error(
        "the limit of {limit} watches is reached (limit `watches`): stop a watch, or take the pending \
         events of watches that ended"
    )]
    TooMany {
        /// The maximum number of watches.
        limit: usize,
    },
}
