//! The methods of [`Host`] that list and read resources, get prompts and complete arguments.
//!
//! Methods ending in `_raw` return what the server sent: untrusted, neither truncated nor
//! sanitized. The methods of the same name without `_raw` render that result for a model.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use serde_json::{Map, Value, json};
use switchboard_client::session::list_kind::ListItem;
use switchboard_client::session::query::Query;
use switchboard_client::session::{Deadline, RequestError, run_blocking};
use switchboard_wire::decode;
use switchboard_wire::mcp::{
    Completion, ErrorObject, GetPromptResult, Json, Prompt, ReadResourceResult, Resource,
    ResourceTemplate,
};

use super::Host;
use crate::call_context::CallContext;
use crate::content::{RenderedPrompt, RenderedResource, render_prompt, render_resource};
use crate::mention;
use crate::query::{
    CompletionTarget, Listing, ListingNote, MentionedResource, QueryError, RefreshOutcome,
    ServerItem, deadline_at,
};
use crate::server::ServerHandle;
use crate::server::listing_cache::{ListingCache, ListingCaches, SharedItems};

/// How many resources [`Host::read_mentions`] reads concurrently.
const MAX_CONCURRENT_READS: usize = 8;

impl Host {
    /// Lists the resources of one server, or of all connected servers.
    #[doc(alias = "list_all_resources")]
    pub async fn resources(&self, server: Option<&str>) -> Result<Listing<Resource>, QueryError> {
        self.resources_of(server, &CallContext::default()).await
    }

    /// Lists the resources of one server, or of all connected servers that a request may use.
    pub(crate) async fn resources_of(
        &self,
        server: Option<&str>,
        context: &CallContext,
    ) -> Result<Listing<Resource>, QueryError> {
        self.list(server, context, |caches| &caches.resources).await
    }

    /// Reads a resource for a request and renders it for a model.
    pub(crate) async fn read_resource_of(
        &self,
        server: &str,
        uri: &str,
        context: &CallContext,
    ) -> Result<RenderedResource, QueryError> {
        let result = self.state().read_resource(server, uri, context).await?;
        Ok(self.render_resource(result).await)
    }

    /// Lists the resource templates of one server, or of all connected servers.
    pub async fn resource_templates(
        &self,
        server: Option<&str>,
    ) -> Result<Listing<ResourceTemplate>, QueryError> {
        let all = &CallContext::default();
        self.list(server, all, |caches| &caches.templates).await
    }

    /// Lists the prompts of one server, or of all connected servers.
    #[doc(alias = "list_all_prompts")]
    pub async fn prompts(&self, server: Option<&str>) -> Result<Listing<Prompt>, QueryError> {
        let all = &CallContext::default();
        self.list(server, all, |caches| &caches.prompts).await
    }

    /// Finds the prompt with this wire name (`mcp__server__prompt`). Returns `None` if no server
    /// has such a prompt.
    pub async fn find_prompt(
        &self,
        wire_name: &str,
    ) -> Result<Option<ServerItem<Prompt>>, QueryError> {
        let Some(server) = self.state().server_for_wire_name(wire_name) else {
            return Ok(None);
        };
        let listing = self.prompts(Some(server.settings().name.as_str())).await?;
        let mut prompts = listing.items.into_iter();
        Ok(prompts.find(|prompt| prompt.wire_name().as_str() == wire_name))
    }

    /// Reads a resource and renders it for a model: texts are sanitized and truncated, binary data
    /// is saved to files.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
    ) -> Result<RenderedResource, QueryError> {
        let result = self.read_resource_raw(server, uri).await?;
        Ok(self.render_resource(result).await)
    }

    /// Reads a resource and returns what the server sent. The request goes only to the server with
    /// the name `server`. The host does not interpret the URI.
    pub async fn read_resource_raw(
        &self,
        server: &str,
        uri: &str,
    ) -> Result<ReadResourceResult, QueryError> {
        let context = CallContext::default();
        self.state().read_resource(server, uri, &context).await
    }

    /// Reads the resources that `text` mentions as `@server:uri`. Mentions after the first 64 are
    /// ignored. A resource that is mentioned several times is read once.
    pub async fn read_mentions(&self, text: &str) -> Vec<MentionedResource> {
        let mut mentions = mention::mentions(text);
        let mut seen = HashSet::new();
        mentions.retain(|mention| seen.insert((mention.server, mention.uri)));
        let reads = mentions.into_iter().map(|mention| async move {
            MentionedResource {
                outcome: self.read_resource(mention.server, mention.uri).await,
                range: mention.range,
                server: mention.server.to_owned(),
                uri: mention.uri.to_owned(),
            }
        });
        stream::iter(reads)
            .buffered(MAX_CONCURRENT_READS)
            .collect()
            .await
    }

    /// Gets a prompt with these arguments and renders it for a model: texts are sanitized and
    /// truncated.
    pub async fn get_prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<RenderedPrompt, QueryError> {
        let result = self.get_prompt_raw(server, prompt, arguments).await?;
        Ok(self.render_prompt(result).await)
    }

    /// Gets a prompt with these arguments and returns what the server sent.
    pub async fn get_prompt_raw(
        &self,
        server: &str,
        prompt: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<GetPromptResult, QueryError> {
        let state = self.state();
        let server = state.query_server(server)?;
        state
            .require_capability(&server, "prompts", |has| has.prompts)
            .await?;
        let max_blocks = state.limits.content_blocks;
        state
            .retry_on_new_session(&server, |session, end| async move {
                session
                    .get_prompt(prompt, arguments, deadline_at(end), max_blocks)
                    .await
            })
            .await
    }

    /// Renders the result of [`Host::read_resource_raw`] for a model.
    pub async fn render_resource(&self, result: ReadResourceResult) -> RenderedResource {
        let limits = Arc::clone(&self.state().limits);
        let store = self.state().result_store.clone();
        let rendered = run_blocking(move || render_resource(result, &limits, store.as_deref()));
        // The blocking task fails if rendering panics or the runtime shuts down. The result is then
        // empty.
        rendered.await.unwrap_or_default()
    }

    /// Renders the result of [`Host::get_prompt_raw`] for a model.
    pub async fn render_prompt(&self, result: GetPromptResult) -> RenderedPrompt {
        let limits = Arc::clone(&self.state().limits);
        let store = self.state().result_store.clone();
        let rendered = run_blocking(move || render_prompt(result, &limits, store.as_deref()));
        // The blocking task fails if rendering panics or the runtime shuts down. The result is then
        // empty.
        rendered.await.unwrap_or_default()
    }

    /// Sends a request of any method to a server and returns its result as the server sent it. For
    /// methods for which the host has no function, such as those of protocol extensions.
    ///
    /// The request is sent at most once. If it fails with [`QueryError::ConnectionLost`] or
    /// [`QueryError::TimedOut`], the server may or may not have executed it. In-process servers
    /// answer with the error *method not found*. Methods for which the host keeps state are refused
    /// with [`QueryError::NotRaw`], for example `tools/call`: [`Host::call`] checks its permission.
    ///
    /// ```no_run
    /// # async fn example(host: switchboard::Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let params = serde_json::json!({"query": "pdf"}).as_object().cloned().unwrap_or_default();
    /// let skills = host.request("docs", "skills/list", params).await?;
    /// println!("{}", skills.as_str());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request(
        &self,
        server: &str,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<Json, QueryError> {
        if let Some(reason) = not_raw(method) {
            return Err(QueryError::NotRaw {
                method: method.to_owned(),
                reason,
            });
        }
        let state = self.state();
        let server = state.query_server(server)?;
        let session = state.query_session(&server).await?;
        let limit = state.deadlines.list;
        let query = Query::new(method, Deadline::after(limit)).with_params(params);
        let result = session.raw_query(&query).await;
        result.map_err(|error| state.query_error(&server, error, limit))
    }

    /// Asks a server for completions of an argument. `value` is what the user has typed so far, and
    /// `known` holds the values of other arguments. Returns an empty completion if the server has
    /// no capability `completions`.
    #[doc(alias = "complete_prompt_argument")]
    pub async fn complete(
        &self,
        server: &str,
        target: CompletionTarget<'_>,
        argument: &str,
        value: &str,
        known: &BTreeMap<String, String>,
    ) -> Result<Completion, QueryError> {
        let state = self.state();
        let server = state.query_server(server)?;
        let session = state.query_session(&server).await?;
        if !session.capabilities().completions {
            return Ok(Completion::default());
        }
        let reference = match target {
            CompletionTarget::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            CompletionTarget::ResourceTemplate(uri) => json!({"type": "ref/resource", "uri": uri}),
        };
        let reference = &reference;
        state
            .retry_on_new_session(&server, |session, end| async move {
                let mut query = Query::new("completion/complete", deadline_at(end))
                    .with("ref", reference.clone())
                    .with("argument", json!({"name": argument, "value": value}));
                if !known.is_empty() {
                    query = query.with("context", json!({"arguments": known}));
                }
                session.query_as(&query, decode::completion).await
            })
            .await
    }

    /// Requests the tool list of a server now, even if the server has not reported a change.
    /// Returns after the catalog was updated. A lazy server whose tools are not known is started.
    pub async fn refresh_tools(&self, server: &str) -> Result<RefreshOutcome, QueryError> {
        let server = self.state().query_server(server)?;
        self.refresh_tools_of(&server).await
    }

    pub(crate) async fn refresh_tools_of(
        &self,
        server: &Arc<ServerHandle>,
    ) -> Result<RefreshOutcome, QueryError> {
        let state = self.state();
        state.check_server_not_denied(&server.settings().name)?;
        if server.is_undiscovered() {
            // The first listing is part of the connection attempt.
            state.query_session(server).await?;
            return Ok(RefreshOutcome::Refreshed);
        }
        match server.refresh_tools().await {
            None => Ok(RefreshOutcome::NotConnected),
            Some(Ok(())) => Ok(RefreshOutcome::Refreshed),
            Some(Err(error)) => Err(state.query_error(server, error, state.deadlines.startup)),
        }
    }

    /// Lists the items of one server, or of all connected servers that a request may use. Without
    /// `server`, the error of a server goes to [`Listing::errors`], and the items of the other
    /// servers are returned.
    async fn list<T: ListItem>(
        &self,
        server: Option<&str>,
        context: &CallContext,
        cache: fn(&ListingCaches) -> &ListingCache<T>,
    ) -> Result<Listing<T>, QueryError> {
        let state = self.state();
        let mut listing = Listing {
            items: Vec::new(),
            notes: Vec::new(),
            errors: Vec::new(),
        };
        if let Some(server) = server {
            let server = state.query_server_for(server, context)?;
            let items = self.cached_listing(&server, cache).await?;
            listing.add(&server, &items);
            return Ok(listing);
        }
        let servers = state.servers_in_order();
        let selected = servers
            .iter()
            .filter(|server| context.servers.contains(&server.settings().name));
        let servers: Vec<_> = selected
            .filter_map(|server| server.for_principal(&context.principal).ok())
            .collect();
        let connected = servers.iter().filter(|server| {
            let session = server.session().filter(|_| server.state().enabled);
            session.is_some_and(|session| T::is_offered(&session.capabilities()))
                && state
                    .check_server_not_denied(&server.settings().name)
                    .is_ok()
        });
        let connected: Vec<_> = connected.collect();
        let lists = connected
            .iter()
            .map(|server| self.cached_listing(server, cache));
        for (server, items) in connected.iter().zip(join_all(lists).await) {
            match items {
                Ok(items) => listing.add(server, &items),
                Err(error) => listing.errors.push(error),
            }
        }
        Ok(listing)
    }

    async fn cached_listing<T: ListItem>(
        &self,
        server: &ServerHandle,
        cache: fn(&ListingCaches) -> &ListingCache<T>,
    ) -> Result<SharedItems<T>, QueryError> {
        let state = self.state();
        let cache = cache(server.listing_caches());
        let (limits, page_limit) = (&state.limits, state.deadlines.list);
        state
            .retry_on_new_session(server, |session, end| async move {
                let items = cache.list(&session, limits, page_limit, end).await;
                match items {
                    // Some servers have resources and do not know `resources/templates/list`.
                    Err(RequestError::ErrorResponse(error))
                        if error.code == ErrorObject::METHOD_NOT_FOUND =>
                    {
                        Ok(SharedItems::default())
                    }
                    outcome => outcome,
                }
            })
            .await
    }
}

impl<T> Listing<T> {
    /// Adds the items and the notes of one server.
    fn add(&mut self, server: &ServerHandle, listed: &SharedItems<T>) {
        let name = &server.settings().name;
        self.items
            .extend(listed.items.iter().map(|item| ServerItem {
                server: name.clone(),
                item: Arc::clone(item),
            }));
        self.notes
            .extend(listed.notes.iter().map(|note| ListingNote {
                server: name.clone(),
                note: note.clone(),
            }));
    }
}

/// Why a method cannot be sent as a raw request. `None` if it can.
fn not_raw(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" => Some("use `Host::call`"),
        "initialize" | "server/discover" => Some("the host performs the handshake"),
        "subscriptions/listen" | "resources/subscribe" | "resources/unsubscribe" => {
            Some("use `Host::watch`")
        }
        _ if method.starts_with("notifications/") => Some("it is a notification"),
        _ => None,
    }
}
