//! One configured server: the task that owns it, and the handle that the rest of the host uses.
//!
//! The handle sends orders to the owner, reads the state that the owner publishes, and holds the
//! semaphores that limit calls in flight. Calls and queries do not go through the owner: they take
//! the session from the published state and send requests on it. Invariant: one task owns one
//! server.

pub(crate) mod backoff;
mod change_events;
pub(crate) mod connect;
mod connect_hint;
pub(crate) mod environment;
#[cfg(feature = "stdio")]
mod launch;
pub(crate) mod listing_cache;
pub(crate) mod owner;
mod principals;
pub(crate) mod retry_slots;
pub(crate) mod sdk_servers;
pub(crate) mod start_slots;
pub(crate) mod state;
mod tool_listing_refresh;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use switchboard_client::session::Session;
use switchboard_client::stderr::{StderrOutput, StderrTail};
use switchboard_config::{MaskedEntry, Scope};
use switchboard_wire::mcp::{Implementation, ServerHello};
use switchboard_wire::sync::CachePadded;
use switchboard_wire::text::sanitize;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, CatalogPublisher, ServerKey};
use crate::event::EventSink;
use crate::id::{Principal, ServerName};
use crate::status::{
    ServerDetails, ServerPhase, ServerStatus, ToolSummary, TransportKind, Unavailable,
};
use backoff::Backoff;
use connect::ConnectSetup;
use listing_cache::ListingCaches;
use owner::{Order, Owner, RefreshReply};
use principals::PrincipalHandles;
use start_slots::StartRequest;
use state::{Phase, State};
use tool_listing_refresh::ListingExpiry;

/// Capacity of the channel for orders. Orders are rare; a sender waits while the channel is full.
const ORDER_CHANNEL_CAPACITY: usize = 16;
/// Maximum time that a failed call waits for the owner to determine why the session ended.
const LOSS_REASON_TIMEOUT: Duration = Duration::from_secs(2);
/// Calls per server that do not count toward the limit of the host. Each server can make this many
/// calls, even if calls to servers that hang have used up the limit of the host.
const CALLS_BEYOND_HOST_LIMIT: usize = 4;

/// The properties of a server that do not change between sessions. Only `description` can become
/// outdated: [`ServerHandle::description`] returns the current one.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    pub(crate) name: ServerName,
    /// Distinguishes this server from earlier servers of the same name.
    pub(crate) sequence: u64,
    pub(crate) transport: TransportKind,
    pub(crate) description: EntryDescription,
    pub(crate) call_timeout: Option<Duration>,
    /// Maximum number of calls in flight. `None`: the default of the host.
    pub(crate) max_calls: Option<usize>,
    pub(crate) trusts_annotations: bool,
}

impl ServerSettings {
    pub(crate) fn key(&self) -> ServerKey {
        ServerKey {
            server: self.name.clone(),
            sequence: self.sequence,
        }
    }
}

/// The scope and text of a server's config entry. Can change without a restart of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntryDescription {
    pub(crate) scope: Scope,
    pub(crate) entry: Option<MaskedEntry>,
}

/// The phase in which the owner of a server starts, and the server that must stop first.
pub(crate) struct InitialState {
    pub(crate) phase: Phase,
    /// Whether no tool list of a dormant server was cached.
    pub(crate) tools_unknown: bool,
    /// The server that this server replaces. The owner waits until the replaced server has stopped.
    pub(crate) replaces: Option<Arc<ServerHandle>>,
}

/// The handle of the task that owns a server. Aligned to a cache line, because calls to different
/// servers update the reference counts of their handles concurrently.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct ServerHandle {
    settings: ServerSettings,
    description: ArcSwap<EntryDescription>,
    orders: mpsc::Sender<Order>,
    state: watch::Receiver<State>,
    /// Limits the calls in flight to this server.
    call_slots: CachePadded<Semaphore>,
    /// The slots of the [`CALLS_BEYOND_HOST_LIMIT`] calls in flight that do not count toward the
    /// limit of the host.
    reserved_slots: CachePadded<Semaphore>,
    listing_expiry: Arc<ListingExpiry>,
    listing_caches: ListingCaches,
    /// The catalog that has the tools of this server: that of the host, or that of one principal.
    catalog: Arc<CatalogPublisher>,
    /// The handles of further principals. `None` if all principals share the session.
    principals: Option<PrincipalHandles>,
    /// Whether the server began dormant and without a cached tool list. Its tools are then unknown
    /// until its first session.
    tools_unknown: bool,
    /// Set by the first [`Self::request_discovery`].
    discovery_requested: AtomicBool,
    stop: CancellationToken,
}

impl ServerHandle {
    /// Spawns the owner of a server.
    pub(crate) fn spawn(
        settings: ServerSettings,
        setup: ConnectSetup,
        initial: InitialState,
        backoff: Backoff,
        catalog: Arc<CatalogPublisher>,
        events: EventSink,
        default_max_calls: usize,
    ) -> Self {
        let (orders, inbox) = mpsc::channel(ORDER_CHANNEL_CAPACITY);
        // The servers are spawned in the configured order, and get their slots in this order.
        let starts_now = initial.phase == Phase::Starting && initial.replaces.is_none();
        let start_request = starts_now.then(|| setup.start_slots.request(&setup.endpoint));
        let is_queued = start_request.as_ref().is_some_and(StartRequest::is_waiting);
        let phase = if is_queued {
            Phase::Queued
        } else {
            initial.phase
        };
        let mut first_state = State::new(phase);
        first_state.stage = setup.client.stage.clone();
        let (publisher, state) = watch::channel(first_state);
        let stop = setup.stop.clone();
        let tasks = setup.client.tasks.clone();
        let listing_expiry = Arc::new(ListingExpiry::new());
        let setup = Arc::new(setup);
        let owner = Owner {
            key: settings.key(),
            setup: Arc::clone(&setup),
            orders: inbox,
            state: publisher,
            catalog: Arc::clone(&catalog),
            events,
            listing_expiry: Arc::clone(&listing_expiry),
            backoff,
            failed_attempts: 0,
            replaces: initial.replaces,
            start_request,
            last_immediate_reconnect: None,
        };
        tasks.spawn(owner.run());
        let max_calls = settings.max_calls.unwrap_or(default_max_calls);
        Self {
            description: ArcSwap::from_pointee(settings.description.clone()),
            settings,
            orders,
            state,
            call_slots: CachePadded(Semaphore::new(max_calls)),
            reserved_slots: CachePadded(Semaphore::new(CALLS_BEYOND_HOST_LIMIT)),
            listing_expiry,
            listing_caches: ListingCaches::default(),
            catalog,
            principals: None,
            tools_unknown: initial.tools_unknown,
            discovery_requested: AtomicBool::new(false),
            stop,
        }
    }

    /// Spawns the owner of a server of the host. If its credentials depend on the principal, the
    /// handle also spawns and owns the handles of further principals.
    pub(crate) fn spawn_for_host(
        settings: ServerSettings,
        setup: ConnectSetup,
        initial: InitialState,
        backoff: Backoff,
        catalog: Arc<CatalogPublisher>,
        events: EventSink,
        default_max_calls: usize,
    ) -> Self {
        let principals = setup.endpoint.depends_on_principal();
        let principals = principals.then(|| PrincipalHandles {
            settings: settings.clone(),
            setup: Arc::new(setup.clone()),
            backoff: backoff.clone(),
            default_max_calls,
            by_principal: Arc::default(),
        });
        let handle = Self::spawn(
            settings,
            setup,
            initial,
            backoff,
            catalog,
            events,
            default_max_calls,
        );
        Self {
            principals,
            ..handle
        }
    }

    /// Whether this principal has a separate session.
    pub(crate) fn is_separate_for(&self, principal: &Principal) -> bool {
        self.principals.is_some() && *principal != Principal::default()
    }

    /// Returns the handle whose session this principal uses: its own one if the credentials depend
    /// on the principal, otherwise this one. Fails if too many principals use the server.
    pub(crate) fn for_principal(
        self: &Arc<Self>,
        principal: &Principal,
    ) -> Result<Arc<Self>, Unavailable> {
        match &self.principals {
            Some(handles) if *principal != Principal::default() => handles.handle(principal),
            _ => Ok(Arc::clone(self)),
        }
    }

    /// Whether `other` is this handle, or the handle of a principal that this handle owns.
    pub(crate) fn is_same_or_owns(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || self
                .principals
                .as_ref()
                .is_some_and(|handles| handles.contains(other))
    }

    /// The snapshot of the catalog that has the tools of this server.
    pub(crate) fn catalog(&self) -> Guard<Arc<Catalog>> {
        self.catalog.current()
    }

    pub(crate) fn listing_caches(&self) -> &ListingCaches {
        &self.listing_caches
    }

    pub(crate) fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Replaces the scope and the text after an edit of the config entry that does not change how
    /// the server is started.
    pub(crate) fn set_description(&self, description: EntryDescription) {
        self.description.store(Arc::new(description));
    }

    pub(crate) fn description(&self) -> Arc<EntryDescription> {
        self.description.load_full()
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn phase(&self) -> ServerPhase {
        self.state.borrow().phase.public()
    }

    pub(crate) fn watch_state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.state.borrow().session.clone()
    }

    /// Requests a new tool listing if the last listing has expired. Called whenever the tools of
    /// the server are used, because an unused listing is not refreshed.
    pub(crate) fn refresh_if_expired(&self) {
        self.listing_expiry.refresh_if_expired();
    }

    /// The slots for calls in flight to this server.
    pub(crate) fn call_slots(&self) -> &Semaphore {
        &self.call_slots
    }

    /// The slots for calls that do not count toward the limit of the host.
    pub(crate) fn reserved_slots(&self) -> &Semaphore {
        &self.reserved_slots
    }

    /// Starts a dormant server and waits until the server is connected or has failed.
    pub(crate) async fn start_and_settle(&self) -> State {
        if self.state.borrow().phase == Phase::Dormant {
            self.order(Order::Wake).await;
        }
        self.wait_until_settled().await
    }

    /// Starts a dormant server whose tools are unknown, so that it lists its tools. Then waits until
    /// the server is settled. Other dormant servers are not started.
    pub(crate) async fn discover(&self) -> State {
        if self.tools_unknown {
            self.start_and_settle().await
        } else {
            self.wait_until_settled().await
        }
    }

    /// Whether the tools are unknown because the server was never started.
    pub(crate) fn is_undiscovered(&self) -> bool {
        self.tools_unknown && self.state.borrow().phase == Phase::Dormant
    }

    /// Starts a dormant server whose tools are unknown, without waiting. Later calls do nothing.
    pub(crate) fn request_discovery(&self) {
        if self.is_undiscovered() && !self.discovery_requested.swap(true, Ordering::Relaxed) {
            let (done, _) = oneshot::channel();
            // The channel is full only if other orders wait, one of which starts the server.
            let _ = self.orders.try_send(Order::Wake(done));
        }
    }

    /// Waits while the server is starting, or while the owner determines why its session ended. See
    /// [`State::is_settled`].
    pub(crate) async fn wait_until_settled(&self) -> State {
        let mut state = self.state.clone();
        match state.wait_for(State::is_settled).await {
            Ok(settled) => settled.clone(),
            Err(_) => self.state(),
        }
    }

    /// Waits for the session that replaces `lost`. Returns `None` if there is none at `deadline`,
    /// or if the owner stops reconnecting.
    pub(crate) async fn next_session(&self, lost: &Session, deadline: Instant) -> Option<Session> {
        let mut state = self.state.clone();
        let is_replaced = |state: &State| {
            let session = state.session.as_ref();
            session.is_some_and(|session| !session.is_same_as(lost)) || state.has_given_up()
        };
        let waited = tokio::time::timeout_at(deadline, state.wait_for(is_replaced)).await;
        waited.ok()?.ok()?.session.clone()
    }

    /// Returns why the last session ended. Waits until the owner has collected the exit code and
    /// stderr, at most `LOSS_REASON_TIMEOUT`. Returns `None` after that.
    pub(crate) async fn loss_reason(&self) -> Option<String> {
        let mut state = self.state.clone();
        let published = state.wait_for(|state| state.session.is_none() && state.error().is_some());
        let state = tokio::time::timeout(LOSS_REASON_TIMEOUT, published)
            .await
            .ok()?
            .ok()?;
        state.error()
    }

    pub(crate) async fn restart(&self) {
        self.order(Order::Restart).await;
    }

    pub(crate) async fn set_enabled(&self, enabled: bool) {
        self.order(|done| Order::SetEnabled(enabled, done)).await;
    }

    /// Lists the tools again and waits for the outcome.
    pub(crate) async fn refresh_tools(&self) -> RefreshReply {
        self.order(Order::RefreshTools).await.flatten()
    }

    /// Sends an order and waits for the answer of the owner. Returns `None` if the owner drops the
    /// order.
    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (done, receipt) = oneshot::channel();
        self.orders.send(order(done)).await.ok()?;
        receipt.await.ok()
    }

    /// Tells the owner to stop. [`Self::wait_until_stopped`] waits until the owner has ended.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn wait_until_stopped(&self) {
        let mut state = self.state.clone();
        // An error means that the owner has dropped the sender, so the owner has ended.
        let _ = state.wait_for(|state| state.phase == Phase::Stopped).await;
        while state.changed().await.is_ok() {}
    }

    pub(crate) fn status(&self, catalog: &Catalog) -> ServerStatus {
        self.refresh_if_expired();
        let state = self.state();
        let description = self.description();
        let tools = catalog.tools_of(&self.settings.name);
        ServerStatus {
            name: self.settings.name.clone(),
            status: state.status(),
            server_info: state
                .handshake
                .as_ref()
                .and_then(|handshake| handshake.server_info.as_ref())
                .map(Implementation::sanitized),
            error: state.error(),
            config: description.entry.clone(),
            scope: Some(description.scope),
            tools: tools
                .map(|tool| ToolSummary::from(&*tool.definition))
                .collect(),
            detail: state.detail(),
        }
    }

    pub(crate) fn stderr_since(&self, position: u64) -> Option<StderrOutput> {
        let state = self.state();
        state.stderr.map(|tail| tail.output_since(position))
    }

    pub(crate) fn details(&self, catalog: &Catalog) -> ServerDetails {
        let state = self.state();
        let name = &self.settings.name;
        let rejected = catalog.rejected_of(name).iter();
        let rejected = rejected.map(|tool| format!("tool {}: {}", tool.id.tool, tool.reason));
        let unchecked = catalog.tools_of(name).flat_map(|tool| tool.schema_notes());
        let notes = state.notes.iter().cloned().chain(rejected).chain(unchecked);
        let stderr = state.stderr.as_ref().map(StderrTail::last_lines);
        ServerDetails {
            status: self.status(catalog),
            transport: match &state.session {
                Some(session) if session.is_sse_2024() => TransportKind::Sse,
                _ => self.settings.transport,
            },
            phase: state.phase.public(),
            generation: state.generation,
            connect_time: state.connect_time,
            attempt: state.attempt,
            challenge: match state.phase {
                Phase::NeedsAuth(login) => Some(login.challenge),
                _ => None,
            },
            handshake: state.handshake.as_deref().map(ServerHello::sanitized),
            notes: notes.map(|note| sanitize(&note).into_owned()).collect(),
            stderr: stderr.filter(|text| !text.is_empty()),
        }
    }

    /// The error of a request to a server that is not connected.
    pub(crate) fn unavailable(&self, state: &State) -> Unavailable {
        Unavailable {
            server: self.settings.name.clone(),
            status: state.status(),
            reason: state.error(),
            hint: state.detail(),
            retry_in: self.time_until_next_attempt(),
        }
    }

    fn time_until_next_attempt(&self) -> Option<Duration> {
        match self.state.borrow().phase {
            Phase::Retrying { at, .. } => Some(at.saturating_duration_since(Instant::now())),
            _ => None,
        }
    }
}
