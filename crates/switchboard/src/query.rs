//! Queries: read resources, get prompts, complete arguments.
//!
//! This module defines the types, selects the session of a query and checks the preconditions of
//! the query. The public methods are on [`Host`](crate::Host).
//!
//! Invariant: a query is sent at most twice. A query changes nothing on the server, so it is sent
//! once more if the connection is lost.

mod error;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use switchboard_client::session::{Deadline, RequestError, Session, SessionEnd};
use switchboard_wire::mcp::{Json, Prompt, ReadResourceResult, ServerCapabilities};
use switchboard_wire::naming;
use tokio::time::{Instant, timeout_at};

pub use error::QueryError;

use crate::call_context::{CallContext, ServerSelection};
use crate::content::RenderedResource;
use crate::host_state::HostState;
use crate::id::{ServerName, ToolName, WireName};
use crate::permission::Denial;
use crate::server::ServerHandle;

/// Maximum length of a resource URI in bytes.
const MAX_URI_BYTES: usize = 64 * 1024;

/// A resource, resource template or prompt of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerItem<T> {
    /// The name of the server.
    pub server: ServerName,
    /// The item as the server sent it.
    pub item: Arc<T>,
}

impl<T: Serialize> Serialize for ServerItem<T> {
    /// Serializes the item with sanitized texts and with an additional member `server`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flattened<'a> {
            server: &'a ServerName,
            #[serde(flatten)]
            item: Value,
        }
        let item = serde_json::value::to_raw_value(&*self.item).map_err(S::Error::custom)?;
        let item = Json::from(item).sanitized().to_value();
        let (server, item) = (&self.server, item.map_err(S::Error::custom)?);
        Flattened { server, item }.serialize(serializer)
    }
}

impl ServerItem<Prompt> {
    /// Returns the name of the slash command for the prompt: `mcp__server__prompt`.
    pub fn wire_name(&self) -> WireName {
        naming::wire_name(&self.server, &ToolName::from(self.item.name.as_str()))
    }
}

/// The resources, resource templates or prompts of one or more servers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listing<T> {
    /// The items, grouped by server. Items of one server are in the order in which that server
    /// listed them.
    pub items: Vec<ServerItem<T>>,
    /// Which items are missing, although their servers were listed: invalid items, and items beyond
    /// a limit.
    pub notes: Vec<ListingNote>,
    /// The errors of the servers that could not be listed. The items of these servers are missing.
    pub errors: Vec<QueryError>,
}

/// A note that items are missing in the listing of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListingNote {
    /// The name of the server.
    pub server: ServerName,
    /// Which items are missing and why.
    pub note: String,
}

impl fmt::Display for ListingNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}: {}", self.server, self.note)
    }
}

/// The prompt or resource template whose argument a completion request completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompletionTarget<'a> {
    /// The prompt with this name.
    Prompt(&'a str),
    /// The resource template with this URI template.
    ResourceTemplate(&'a str),
}

/// A resource that a text mentions as `@server:uri`.
#[derive(Debug)]
#[non_exhaustive]
pub struct MentionedResource {
    /// The byte range of the mention in the text.
    pub range: Range<usize>,
    /// The name of the server in the mention.
    pub server: String,
    /// The URI of the resource.
    pub uri: String,
    /// The content of the resource, or why it could not be read.
    pub outcome: Result<RenderedResource, QueryError>,
}

/// The result of [`Host::refresh_tools`](crate::Host::refresh_tools).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshOutcome {
    /// The server listed its tools, and the catalog was updated.
    Refreshed,
    /// The server has no open session, so its tools were not listed.
    NotConnected,
}

impl HostState {
    /// Looks up a server by name.
    pub(crate) fn query_server(&self, name: &str) -> Result<Arc<ServerHandle>, QueryError> {
        let server = ServerName::new(name)
            .ok()
            .and_then(|name| self.server(&name));
        server.ok_or_else(|| QueryError::UnknownServer(name.to_owned()))
    }

    /// Looks up the server that a request uses: the session of its principal. Fails if the request
    /// may not use the server.
    pub(crate) fn query_server_for(
        &self,
        name: &str,
        context: &CallContext,
    ) -> Result<Arc<ServerHandle>, QueryError> {
        let server = self.query_server(name)?;
        check_selected(&server.settings().name, &context.servers)?;
        let server = server.for_principal(&context.principal);
        server.map_err(QueryError::Unavailable)
    }

    /// Fails if a rule denies all tools of the server. Such a rule also denies queries.
    pub(crate) fn check_server_not_denied(&self, server: &ServerName) -> Result<(), QueryError> {
        match self.policy().server_denial(server) {
            None => Ok(()),
            Some(decision) => Err(QueryError::Denied {
                server: server.clone(),
                denial: Denial::Rule(decision),
            }),
        }
    }

    /// Returns the session of a server. Starts a dormant server. Waits for a server that is
    /// starting, at most for the startup deadline.
    pub(crate) async fn query_session(&self, server: &ServerHandle) -> Result<Session, QueryError> {
        self.check_server_not_denied(&server.settings().name)?;
        let until = Instant::now() + self.deadlines.startup;
        let state = match server.session() {
            Some(_) => server.state(),
            None => match timeout_at(until, server.start_and_settle()).await {
                Ok(state) => state,
                Err(_) => server.state(),
            },
        };
        match &state.session {
            Some(session) if state.enabled => Ok(session.clone()),
            _ if self.is_stopping() => Err(QueryError::ShuttingDown),
            _ => Err(QueryError::Unavailable(server.unavailable(&state))),
        }
    }

    /// Fails if a rule denies the server, if it is not connected, or if it did not declare the
    /// capability.
    pub(crate) async fn require_capability(
        &self,
        server: &ServerHandle,
        name: &'static str,
        is_declared: fn(&ServerCapabilities) -> bool,
    ) -> Result<(), QueryError> {
        let session = self.query_session(server).await?;
        if is_declared(&session.capabilities()) {
            return Ok(());
        }
        Err(QueryError::UnsupportedCapability {
            server: server.settings().name.clone(),
            what: name,
        })
    }

    /// Runs `query` on the session of the server. If that session is lost, runs `query` once more
    /// on the next session. `query` gets the session and the instant at which the request times
    /// out. That instant is the same for both runs.
    pub(crate) async fn retry_on_new_session<T, F>(
        &self,
        server: &ServerHandle,
        mut query: impl FnMut(Session, Instant) -> F,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let session = self.query_session(server).await?;
        let limit = self.deadlines.list;
        let end = Instant::now() + limit;
        let outcome = match query(session.clone(), end).await {
            Err(lost @ (RequestError::Lost { .. } | RequestError::UnknownSession)) => {
                match server.next_session(&session, end).await {
                    Some(session) => query(session, end).await,
                    None => Err(lost),
                }
            }
            outcome => outcome,
        };
        outcome.map_err(|error| self.query_error(server, error, limit))
    }

    /// Reads a resource of this server. The host sends the URI to the server as it is.
    pub(crate) async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        context: &CallContext,
    ) -> Result<ReadResourceResult, QueryError> {
        check_uri(uri)?;
        let server = self.query_server_for(server, context)?;
        self.require_capability(&server, "resources", |capabilities| capabilities.resources)
            .await?;
        let max_blocks = self.limits.content_blocks;
        let read = self.retry_on_new_session(&server, |session, end| async move {
            session
                .read_resource(uri, deadline_at(end), max_blocks)
                .await
        });
        let mut result = read.await?;
        result.requested_uri = Some(uri.to_owned());
        Ok(result)
    }

    /// Converts the error of a request to the error of the query. `limit` is the time limit of the
    /// query.
    pub(crate) fn query_error(
        &self,
        server: &ServerHandle,
        error: RequestError,
        limit: Duration,
    ) -> QueryError {
        let name = server.settings().name.clone();
        match error {
            RequestError::ErrorResponse(error) => QueryError::ErrorResponse {
                server: name,
                error,
            },
            RequestError::InvalidResponse(problem) => QueryError::InvalidResponse {
                server: name,
                problem,
            },
            RequestError::TimedOut { .. } => QueryError::TimedOut {
                server: name,
                after: limit,
            },
            RequestError::Lost { .. } if self.is_stopping() => QueryError::ShuttingDown,
            RequestError::NeedsLogin(_)
            | RequestError::Lost {
                end: SessionEnd::NeedsLogin(_),
                ..
            } => QueryError::Unavailable(server.unavailable(&server.state())),
            other => QueryError::ConnectionLost {
                server: name,
                reason: other.to_string(),
            },
        }
    }
}

/// Fails if the request may not use the server.
pub(crate) fn check_selected(
    server: &ServerName,
    selection: &ServerSelection,
) -> Result<(), QueryError> {
    if selection.contains(server) {
        return Ok(());
    }
    Err(QueryError::ServerNotSelected(server.clone()))
}

/// Returns the deadline of a request that times out at `end`.
pub(crate) fn deadline_at(end: Instant) -> Deadline {
    Deadline::after(end.saturating_duration_since(Instant::now()))
}

/// Rejects a URI that is empty, longer than `MAX_URI_BYTES` or contains control characters.
pub(crate) fn check_uri(uri: &str) -> Result<(), QueryError> {
    let problem = if uri.len() > MAX_URI_BYTES {
        format!("the URI is longer than {MAX_URI_BYTES} bytes")
    } else if uri.is_empty() {
        "the URI is empty".to_owned()
    } else if uri.chars().any(char::is_control) {
        "the URI contains control characters".to_owned()
    } else {
        return Ok(());
    };
    Err(QueryError::InvalidUri(problem))
}
