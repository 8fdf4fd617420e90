//! Watches: an agent learns that something changed, without asking again and again.
//!
//! A watch is a subscription to a resource, or the poll of a resource or of a tool. What changed waits
//! in a queue until the program that embeds the host takes it, between two turns of its agent say:
//! [`Host::drain_watch_events`], or [`Host::next_watch_event`] to wait for it.
//!
//! A watch belongs to a server by name: it survives that the server goes away and comes back, and a
//! reload of the config that keeps or changes the server. It ends when the server is removed.
//!
//! Invariants: only a change of content is told, once; a watch has at most one change in the queue, from
//! what was told last to what is there now; a poll never overlaps itself, and a tool is polled only as
//! far as the permission rules allow it in that moment.

mod diff;
mod event;
mod snapshot;
mod table;
mod task;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use event::{WatchChange, WatchEvent};
pub(crate) use table::Watches;

use crate::call::arguments::Checked;
use crate::call::{CallContext, Violation, list};
use crate::host::{Host, QueryError, check_uri};
use crate::id::{Principal, ServerName, ToolId, ToolName, WatchId};
use table::Entry;
use task::Watcher;

/// How often is polled unless something else is asked for.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
/// More often than this nobody polls.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
/// Less often than this is as good as never, and can still be added to a point in time.
const LONGEST_INTERVAL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long the server may take to agree to tell of a resource, before it is read for the first time.
const BEGINNING: Duration = Duration::from_secs(30);

/// What is to be watched, and how.
///
/// ```
/// # use std::time::Duration;
/// # use switchboard::watch::WatchRequest;
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
    /// Which server.
    pub server: String,
    /// Told by the server, or asked for at intervals.
    pub kind: WatchKind,
    /// What of it.
    pub target: WatchTarget,
    /// How often it is asked for, where it has to be; at least a second.
    pub interval: Duration,
    /// Why; it stands in every event.
    pub reason: Option<String>,
    /// Who wants it: goes with every poll of a tool.
    pub context: CallContext,
}

impl WatchRequest {
    /// Has the server tell when a resource changes. Where a server does not tell, it is polled.
    pub fn subscription(server: impl Into<String>, uri: impl Into<String>) -> Self {
        let target = WatchTarget::Resource { uri: uri.into() };
        Self::new(server.into(), WatchKind::Subscription, target)
    }

    /// Reads a resource at intervals.
    pub fn poll_resource(server: impl Into<String>, uri: impl Into<String>) -> Self {
        let target = WatchTarget::Resource { uri: uri.into() };
        Self::new(server.into(), WatchKind::Poll, target)
    }

    /// Calls a tool at intervals, by the name that its server gives it. What is no object counts as no
    /// arguments.
    ///
    /// Every call passes the permission rules. Where they say that a person has to be asked, that is
    /// done once: what was answered holds for this watch, as long as the tool stays as it is.
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

    /// Says how often it is asked for.
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Says why.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Says who wants it.
    pub fn context(mut self, context: CallContext) -> Self {
        self.context = context;
        self
    }
}

/// How one learns of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WatchKind {
    /// The server tells.
    Subscription,
    /// The server is asked again and again.
    Poll,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WatchTarget {
    /// A resource.
    Resource {
        /// Its address.
        uri: String,
    },
    /// What a tool answers.
    Tool {
        /// The name that its server gives it.
        name: ToolName,
        /// What it is called with.
        arguments: Map<String, Value>,
    },
}

impl WatchTarget {
    /// The address of the resource, or the name of the tool.
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

/// A watch, as it is now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Watch {
    /// By what it is known: `sub-…` or `poll-…`.
    pub id: WatchId,
    /// What was asked for.
    pub kind: WatchKind,
    /// How it is done: what was asked for as a subscription is polled where the server does not tell.
    #[serde(rename = "means")]
    pub effective_kind: WatchKind,
    /// Why it is polled instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether it was ever seen: what it was then is what changes are told from.
    #[serde(rename = "seen")]
    pub has_baseline: bool,
    /// Which server.
    pub server: ServerName,
    /// What of it.
    pub target: WatchTarget,
    /// How often it is asked for, where it has to be.
    #[serde(rename = "intervalMs", serialize_with = "as_millis")]
    pub interval: Duration,
    /// Why it is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who wanted it.
    #[serde(skip)]
    pub principal: Principal,
}

fn as_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Why something cannot be watched.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The server or the resource is not there, or cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The server has no such tool.
    #[error(
        "server {server} has no tool {tool}{}",
        nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
    )]
    UnknownTool {
        /// Which server.
        server: ServerName,
        /// The name that was asked for.
        tool: ToolName,
        /// A tool with a similar name.
        nearest: Option<String>,
    },
    /// The arguments do not fit the tool's schema.
    #[error("the arguments do not fit {tool}: {}", list(.violations))]
    InvalidArguments {
        /// Which tool.
        tool: ToolId,
        /// What does not fit, and where.
        violations: Vec<Violation>,
    },
    /// Nobody is asked that often.
    #[error("{0:?} is too short an interval: the shortest is {LEAST_INTERVAL:?}")]
    IntervalTooShort(Duration),
    /// It was ended, or its server was removed, before it had begun.
    #[error("the watch was ended before it had begun")]
    Ended,
    /// There are as many watches as there may be.
    #[error(
        "there are {limit} watches already, as many as there may be (limit `watches`): end one, or \
         take the last events of those that ended"
    )]
    TooMany {
        /// How many there may be.
        limit: usize,
    },
}

impl Host {
    /// Begins to watch something. Comes back when the resource was read for the first time, which is
    /// what later changes are told from; a tool is called for the first time after this came back.
    pub async fn watch(&self, request: WatchRequest) -> Result<Watch, WatchError> {
        if request.interval < LEAST_INTERVAL {
            return Err(WatchError::IntervalTooShort(request.interval));
        }
        let server = self.server_named(&request.server)?;
        let server = server.profile().name.clone();
        if let WatchTarget::Resource { uri } = &request.target {
            check_uri(uri)?;
        }
        let shared = self.shared();
        let entry = shared.watches().admit(server, request, shared.stop())?;
        let beginning = Beginning {
            host: self,
            entry: Some(Arc::clone(&entry)),
        };
        self.check_target(&entry).await?;
        let (began, begins) = oneshot::channel();
        let watcher = Watcher::new(self.inner(), Arc::clone(&entry), began);
        shared.spawn(watcher.run());
        let limit = BEGINNING + shared.deadlines().startup + shared.deadlines().list;
        match timeout(limit, begins).await {
            Ok(Ok(outcome)) => outcome?,
            Ok(Err(_)) if shared.is_stopping() => return Err(QueryError::ShuttingDown.into()),
            Ok(Err(_)) => return Err(WatchError::Ended),
            Err(_) => {
                let server = entry.server.clone();
                let after = limit;
                return Err(QueryError::TimedOut { server, after }.into());
            }
        }
        beginning.succeed();
        Ok(shared.watches().describe(&entry))
    }

    /// All watches, in the order in which they began.
    pub fn watches(&self) -> Vec<Watch> {
        self.shared().watches().all()
    }

    /// The watches of one resource (by its address) or of one tool (by its name) of a server.
    pub fn watches_on(&self, server: &str, target: &str) -> Vec<Watch> {
        let mut watches = self.watches();
        watches.retain(|watch| watch.server.as_str() == server && watch.target.name() == target);
        watches
    }

    /// Ends a watch, and forgets what it had to tell. What was ended is returned, if there was such a
    /// watch.
    pub fn unwatch(&self, id: &str) -> Option<Watch> {
        self.shared().watches().remove(id)
    }

    /// Takes what all watches have to tell, and does not wait.
    pub fn drain_watch_events(&self) -> Vec<WatchEvent> {
        let watches = self.shared().watches();
        std::iter::from_fn(|| watches.pop(&|_| true)).collect()
    }

    /// Takes what the watches of one principal have to tell: for a host that serves several.
    pub fn drain_watch_events_for(&self, principal: &Principal) -> Vec<WatchEvent> {
        let watches = self.shared().watches();
        std::iter::from_fn(|| watches.pop(&|owner| owner == principal)).collect()
    }

    /// The next thing that a watch has to tell; `None` when the host is shutting down. May be dropped
    /// and called again: nothing is lost.
    pub async fn next_watch_event(&self) -> Option<WatchEvent> {
        let shared = self.shared();
        let next = shared.stop().run_until_cancelled(shared.watches().next());
        next.await
    }

    /// Refuses what cannot be watched at all.
    async fn check_target(&self, entry: &Entry) -> Result<(), WatchError> {
        let server = self.server_named(entry.server.as_str())?;
        self.session(&server).await?;
        let WatchTarget::Tool { name, arguments } = &entry.target else {
            return Ok(());
        };
        let catalog = self.catalog();
        let mut tools = catalog.tools_of(&entry.server);
        if let Some(tool) = tools.find(|tool| tool.id.tool == *name) {
            return match tool.input.check(&Value::Object(arguments.clone())) {
                Checked::Violates(violations) => Err(WatchError::InvalidArguments {
                    tool: tool.id.clone(),
                    violations,
                }),
                _ => Ok(()),
            };
        }
        let tools = catalog.tools_of(&entry.server);
        let names: Vec<_> = tools.map(|tool| tool.id.tool.as_str()).collect();
        Err(WatchError::UnknownTool {
            server: entry.server.clone(),
            tool: name.clone(),
            nearest: switchboard_config::nearest(name.as_str(), &names).map(str::to_owned),
        })
    }
}

/// A watch that is about to begin. It is forgotten if that comes to nothing.
struct Beginning<'a> {
    host: &'a Host,
    entry: Option<Arc<Entry>>,
}

impl Beginning<'_> {
    fn succeed(mut self) {
        self.entry = None;
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            self.host.shared().watches().remove(entry.id.as_str());
        }
    }
}
