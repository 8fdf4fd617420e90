//! What servers have besides tools: resources, templates, prompts, completions.
//!
//! What comes back is as the servers sent it: untrusted, not yet fit to be shown. Asking changes
//! nothing, so what was lost on its way is asked again within its time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Serialize, Serializer};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::Host;
use crate::catalog::naming;
use crate::id::{ServerName, ToolName, WireName};
use crate::mcp::{
    Completion, ErrorObject, GetPromptResult, Prompt, ReadResourceResult, Resource,
    ResourceTemplate, ServerCapabilities,
};
use crate::permission::Denial;
use crate::server::ServerHandle;
use crate::server::offerings::{Items, Offerings, Shelf};
use crate::session::list_kind::ListItem;
use crate::session::query::Query;
use crate::session::{Deadline, RequestError, Session, SessionEnd};
use crate::status::ConnectionStatus;
use crate::wire::{Problem, decode};

/// Longer addresses than this are not sent to a server, in bytes.
const URI_BYTES: usize = 64 * 1024;

/// Something that a server has.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerItem<T> {
    /// Who has it.
    pub server: ServerName,
    /// What it is, in the server's words.
    pub item: Arc<T>,
}

impl<T: Serialize> Serialize for ServerItem<T> {
    /// As the item, with `server` beside its own members.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a, T> {
            server: &'a ServerName,
            #[serde(flatten)]
            item: &'a T,
        }
        let (server, item) = (&self.server, &*self.item);
        Written { server, item }.serialize(serializer)
    }
}

impl ServerItem<Prompt> {
    /// How fronts offer it: `mcp__server__prompt`, behind a slash.
    pub fn wire_name(&self) -> WireName {
        naming::wire_name(&self.server, &ToolName::from(self.item.name.as_str()))
    }
}

/// What several servers have, and who of them could not be asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listing<T> {
    /// In the order of the servers, and of each in its own order.
    pub items: Vec<ServerItem<T>>,
    /// Why some of it may be missing.
    pub errors: Vec<QueryError>,
}

/// What a completion is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompletionTarget<'a> {
    /// An argument of the prompt of this name.
    Prompt(&'a str),
    /// A variable of this template of addresses.
    ResourceTemplate(&'a str),
}

/// Why a server could not be asked, or did not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is no such server.
    #[error("there is no server {0:?}")]
    UnknownServer(String),
    /// It is not connected.
    #[error("server {server} is {status}{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Unavailable {
        /// Which server.
        server: ServerName,
        /// What it is instead.
        status: ConnectionStatus,
        /// Why.
        reason: Option<String>,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A rule denies the whole of it.
    #[error("server {server} may not be used: {denial}")]
    Denied {
        /// Which server.
        server: ServerName,
        /// By which rule.
        denial: Denial,
    },
    /// It does not have such things.
    #[error("server {server} has no {what}")]
    UnsupportedCapability {
        /// Which server.
        server: ServerName,
        /// What it lacks.
        what: &'static str,
    },
    /// That is no address of a resource.
    #[error("{0}")]
    InvalidUri(String),
    /// The server said no.
    #[error("server {server} refused: {error}")]
    ErrorResponse {
        /// Which server.
        server: ServerName,
        /// In its words.
        error: ErrorObject,
    },
    /// It answered something that cannot be used.
    #[error("the answer of server {server} cannot be used: {problem}")]
    InvalidResponse {
        /// Which server.
        server: ServerName,
        /// What is wrong with it.
        problem: Problem,
    },
    /// It did not answer in time.
    #[error("server {server} did not answer within {after:?}")]
    TimedOut {
        /// Which server.
        server: ServerName,
        /// How long it was waited for.
        after: Duration,
    },
    /// The question or the answer was lost.
    #[error("server {server} could not be asked: {reason}")]
    ConnectionLost {
        /// Which server.
        server: ServerName,
        /// How.
        reason: String,
    },
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

impl QueryError {
    /// Codes that servers use for a resource that they do not have; the second is also said of
    /// parameters in general.
    const NOT_FOUND: [i64; 2] = [-32002, ErrorObject::INVALID_PARAMS];

    /// Whether the server says that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::ErrorResponse { error, .. } if Self::NOT_FOUND.contains(&error.code))
    }
}

impl Host {
    /// The resources of one server, or of all that are connected.
    pub async fn resources(&self, server: Option<&str>) -> Result<Listing<Resource>, QueryError> {
        self.offer(server, |offerings| &offerings.resources).await
    }

    /// The templates of addresses of one server, or of all that are connected.
    pub async fn resource_templates(
        &self,
        server: Option<&str>,
    ) -> Result<Listing<ResourceTemplate>, QueryError> {
        self.offer(server, |offerings| &offerings.templates).await
    }

    /// The prompts of one server, or of all that are connected.
    pub async fn prompts(&self, server: Option<&str>) -> Result<Listing<Prompt>, QueryError> {
        self.offer(server, |offerings| &offerings.prompts).await
    }

    /// The prompt that fronts offer by this name (`mcp__server__prompt`), if there is one.
    pub async fn find_prompt(
        &self,
        wire_name: &str,
    ) -> Result<Option<ServerItem<Prompt>>, QueryError> {
        let Some(server) = self.shared.server_named_in(wire_name) else {
            return Ok(None);
        };
        let offer = self.prompts(Some(server.profile().name.as_str())).await?;
        let mut named = offer.items.into_iter();
        Ok(named.find(|prompt| prompt.wire_name().as_str() == wire_name))
    }

    /// Reads a resource. Nobody but the named server is asked for it, whatever its address says.
    pub async fn read_resource_raw(
        &self,
        server: &str,
        uri: &str,
    ) -> Result<ReadResourceResult, QueryError> {
        check_uri(uri)?;
        let server = self.server_named(server)?;
        self.needs(&server, "resources", |has| has.resources)
            .await?;
        let most = self.shared.limits.content_blocks;
        self.again_if_lost(&server, |session, end| async move {
            session.read_resource(uri, until(end), most).await
        })
        .await
    }

    /// A prompt with its arguments filled in.
    pub async fn get_prompt_raw(
        &self,
        server: &str,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<GetPromptResult, QueryError> {
        let server = self.server_named(server)?;
        self.needs(&server, "prompts", |has| has.prompts).await?;
        let most = self.shared.limits.content_blocks;
        self.again_if_lost(&server, |session, end| async move {
            session.get_prompt(name, arguments, until(end), most).await
        })
        .await
    }

    /// What might be meant by the beginning of an argument's value. `known` are the values of other
    /// arguments that were chosen before. A server that completes nothing has no proposals.
    pub async fn complete(
        &self,
        server: &str,
        of: CompletionTarget<'_>,
        argument: &str,
        value: &str,
        known: &BTreeMap<String, String>,
    ) -> Result<Completion, QueryError> {
        let server = self.server_named(server)?;
        let session = self.session(&server).await?;
        if !session.capabilities().completions {
            return Ok(Completion::default());
        }
        let reference = match of {
            CompletionTarget::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            CompletionTarget::ResourceTemplate(uri) => json!({"type": "ref/resource", "uri": uri}),
        };
        let reference = &reference;
        self.again_if_lost(&server, |session, end| async move {
            let mut query = Query::new("completion/complete", until(end))
                .with("ref", reference.clone())
                .with("argument", json!({"name": argument, "value": value}));
            if !known.is_empty() {
                query = query.with("context", json!({"arguments": known}));
            }
            session.query_as(&query, decode::completion).await
        })
        .await
    }

    /// Asks a server for its tools anew, without waiting for it to say that they changed. Comes back
    /// when the catalog has them; with `false` where there is no session to ask on.
    pub async fn refresh_tools(&self, server: &str) -> Result<bool, QueryError> {
        let server = self.server_named(server)?;
        self.check_server_not_denied(&server.profile().name)?;
        match server.relist().await {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => Err(self.ask_error(&server, error, self.shared.deadlines.startup)),
        }
    }

    /// What one server has, or all that are connected. Of all, one that fails hides no other.
    async fn offer<T: ListItem>(
        &self,
        server: Option<&str>,
        shelf: fn(&Offerings) -> &Shelf<T>,
    ) -> Result<Listing<T>, QueryError> {
        if let Some(server) = server {
            let server = self.server_named(server)?;
            let items = self.listed(&server, shelf).await?;
            return Ok(Listing {
                items: offered(&server, &items),
                errors: Vec::new(),
            });
        }
        let servers = self.shared.in_order();
        let connected = servers.iter().filter(|server| {
            let session = server.session().filter(|_| server.state().enabled);
            session.is_some_and(|session| T::is_offered(&session.capabilities()))
                && self.check_server_not_denied(&server.profile().name).is_ok()
        });
        let connected: Vec<_> = connected.collect();
        let listings = connected.iter().map(|server| self.listed(server, shelf));
        let mut offer = Listing {
            items: Vec::new(),
            errors: Vec::new(),
        };
        for (server, listing) in connected.iter().zip(join_all(listings).await) {
            match listing {
                Ok(items) => offer.items.extend(offered(server, &items)),
                Err(error) => offer.errors.push(error),
            }
        }
        Ok(offer)
    }

    async fn listed<T: ListItem>(
        &self,
        server: &ServerHandle,
        shelf: fn(&Offerings) -> &Shelf<T>,
    ) -> Result<Items<T>, QueryError> {
        let shelf = shelf(server.offerings());
        let (limits, page_limit) = (&self.shared.limits, self.shared.deadlines.list);
        self.again_if_lost(server, |session, end| async move {
            let listing = shelf.list(&session, limits, page_limit, end).await;
            match listing {
                // Some have resources and know nothing of templates.
                Err(RequestError::ErrorResponse(error))
                    if error.code == ErrorObject::METHOD_NOT_FOUND =>
                {
                    Ok(Items::default())
                }
                outcome => outcome,
            }
        })
        .await
    }

    /// Does something on the server's session, and once more on the next one if the first was lost.
    async fn again_if_lost<T, F>(
        &self,
        server: &ServerHandle,
        mut work: impl FnMut(Session, Instant) -> F,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let session = self.session(server).await?;
        let limit = self.shared.deadlines.list;
        let end = Instant::now() + limit;
        let outcome = match work(session.clone(), end).await {
            Err(lost @ RequestError::Lost { .. }) => match server.next_session(&session, end).await
            {
                Some(session) => work(session, end).await,
                None => Err(lost),
            },
            outcome => outcome,
        };
        outcome.map_err(|error| self.ask_error(server, error, limit))
    }

    /// The session of a server; one that is dormant is started, one that starts is waited for.
    pub(crate) async fn session(&self, server: &ServerHandle) -> Result<Session, QueryError> {
        self.check_server_not_denied(&server.profile().name)?;
        let until = Instant::now() + self.shared.deadlines.startup;
        let state = match server.session() {
            Some(_) => server.state(),
            None => match timeout_at(until, server.settled()).await {
                Ok(state) => state,
                Err(_) => server.state(),
            },
        };
        match &state.session {
            Some(session) if state.enabled => Ok(session.clone()),
            _ if self.shared.is_stopping() => Err(QueryError::ShuttingDown),
            _ => Err(unavailable(server)),
        }
    }

    /// A server by its name.
    pub(crate) fn server_named(&self, name: &str) -> Result<Arc<ServerHandle>, QueryError> {
        self.known(name)
            .map_err(|_| QueryError::UnknownServer(name.to_owned()))
    }

    /// A rule that denies all tools of a server denies all else of it, too.
    pub(crate) fn check_server_not_denied(&self, server: &ServerName) -> Result<(), QueryError> {
        match self.shared.policy().server_denial(server) {
            None => Ok(()),
            Some(decision) => Err(QueryError::Denied {
                server: server.clone(),
                denial: Denial::Rule(decision),
            }),
        }
    }

    async fn needs(
        &self,
        server: &ServerHandle,
        what: &'static str,
        has: fn(&ServerCapabilities) -> bool,
    ) -> Result<(), QueryError> {
        let session = self.session(server).await?;
        if has(&session.capabilities()) {
            return Ok(());
        }
        let server = server.profile().name.clone();
        Err(QueryError::UnsupportedCapability { server, what })
    }

    fn ask_error(&self, server: &ServerHandle, error: RequestError, limit: Duration) -> QueryError {
        let name = server.profile().name.clone();
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
            RequestError::Lost { .. } if self.shared.is_stopping() => QueryError::ShuttingDown,
            RequestError::NeedsLogin(_)
            | RequestError::Lost {
                end: SessionEnd::NeedsLogin(_),
                ..
            } => unavailable(server),
            other => QueryError::ConnectionLost {
                server: name,
                reason: other.to_string(),
            },
        }
    }
}

/// That a server is not there, and why.
fn unavailable(server: &ServerHandle) -> QueryError {
    let state = server.state();
    QueryError::Unavailable {
        server: server.profile().name.clone(),
        status: state.status(),
        reason: state.error(),
        hint: state.detail(),
    }
}

fn offered<T>(server: &ServerHandle, items: &Items<T>) -> Vec<ServerItem<T>> {
    let offered = items.iter().map(|item| ServerItem {
        server: server.profile().name.clone(),
        item: Arc::clone(item),
    });
    offered.collect()
}

fn until(end: Instant) -> Deadline {
    Deadline::after(end.saturating_duration_since(Instant::now()))
}

/// Refuses what can be no address, before anybody is asked for it.
pub(crate) fn check_uri(uri: &str) -> Result<(), QueryError> {
    let problem = if uri.len() > URI_BYTES {
        format!("the address is longer than {URI_BYTES} bytes")
    } else if uri.is_empty() {
        "an empty text is not the address of a resource".to_owned()
    } else if uri.chars().any(char::is_control) {
        "the address has control characters in it".to_owned()
    } else {
        return Ok(());
    };
    Err(QueryError::InvalidUri(problem))
}
