//! One configured server: its task, its handle, its state.
//!
//! The handle is all that the rest of the host sees. Invariant: one task owns one server.

pub(crate) mod backoff;
pub(crate) mod connect;
mod handshake;
pub(crate) mod negotiate;
pub(crate) mod offerings;
pub(crate) mod owner;
mod relisting;
pub(crate) mod spacing;
pub(crate) mod state;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use switchboard_config::{MaskedEntry, Scope};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, CatalogPublisher, ServerKey};
use crate::event::EventSink;
use crate::id::ServerName;
use crate::session::Session;
use crate::status::{ServerDetails, ServerStatus, ToolSummary, Unavailable};
use crate::sync::Apart;
use crate::transport::stderr::StderrTail;
use backoff::Backoff;
use connect::Site;
use offerings::Offerings;
use owner::{Control, Owner, Relisted};
use relisting::ShelfLife;
use state::{Phase, State};

/// Orders come from people and programs one at a time; more than this never wait.
const ORDERS: usize = 16;
/// How long a call that was lost waits to learn why.
const FINDING_OUT: Duration = Duration::from_secs(2);

/// What is the same for every session with a server.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) name: ServerName,
    /// Tells it from an earlier server of the same name.
    pub(crate) sequence: u64,
    pub(crate) transport: &'static str,
    pub(crate) described: Described,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) max_calls: Option<usize>,
    pub(crate) trusts_annotations: bool,
}

impl Profile {
    pub(crate) fn key(&self) -> ServerKey {
        ServerKey {
            server: self.name.clone(),
            sequence: self.sequence,
        }
    }
}

/// Where and how a server's entry is written. It can change without the server noticing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) scope: Scope,
    pub(crate) written: Option<MaskedEntry>,
}

/// How a server begins.
pub(crate) struct Beginning {
    pub(crate) phase: Phase,
    /// The server whose place it takes: not before that one is gone does it start.
    pub(crate) predecessor: Option<Arc<ServerHandle>>,
}

/// Talks to the task that owns a server.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct ServerHandle {
    profile: Profile,
    /// The entry as it is written now.
    described: ArcSwap<Described>,
    orders: mpsc::Sender<Control>,
    state: watch::Receiver<State>,
    /// Calls under way.
    permits: Apart<Semaphore>,
    /// The calls that do not count in the whole host.
    reserve: Apart<Semaphore>,
    /// Of the last listing.
    shelf_life: Arc<ShelfLife>,
    offerings: Offerings,
    stop: CancellationToken,
}

/// How many calls of a server are not counted in the whole host, so that servers that hang do not
/// use up the calls of the others.
const RESERVE: usize = 4;

impl ServerHandle {
    /// Starts the owner of a server, in the phase that its entry asks for.
    pub(crate) fn spawn(
        profile: Profile,
        site: Site,
        beginning: Beginning,
        backoff: Backoff,
        catalog: Arc<CatalogPublisher>,
        events: EventSink,
        default_calls: usize,
    ) -> Self {
        let (orders, inbox) = mpsc::channel(ORDERS);
        let (publisher, state) = watch::channel(State::new(beginning.phase));
        let stop = site.stop.clone();
        let tasks = site.tasks.clone();
        let shelf_life = Arc::new(ShelfLife::new());
        let owner = Owner {
            key: profile.key(),
            site: Arc::new(site),
            orders: inbox,
            state: publisher,
            catalog,
            events,
            shelf_life: Arc::clone(&shelf_life),
            backoff,
            attempts: 0,
            predecessor: beginning.predecessor,
            renewed: None,
        };
        tasks.spawn(owner.run());
        let max_calls = profile.max_calls.unwrap_or(default_calls);
        Self {
            described: ArcSwap::from_pointee(profile.described.clone()),
            profile,
            orders,
            state,
            permits: Apart(Semaphore::new(max_calls)),
            reserve: Apart(Semaphore::new(RESERVE)),
            shelf_life,
            offerings: Offerings::default(),
            stop,
        }
    }

    /// What the server has besides tools.
    pub(crate) fn offerings(&self) -> &Offerings {
        &self.offerings
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The entry is written differently, or elsewhere, and means the same.
    pub(crate) fn describe(&self, described: Described) {
        self.described.store(Arc::new(described));
    }

    pub(crate) fn described(&self) -> Arc<Described> {
        self.described.load_full()
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The state from now on, as it changes.
    pub(crate) fn follow(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// The open session, if there is one.
    pub(crate) fn session(&self) -> Option<Session> {
        self.state.borrow().session.clone()
    }

    /// Somebody calls the server's tools, or looks at them.
    pub(crate) fn note_use(&self) {
        self.shelf_life.note_use();
    }

    pub(crate) fn permits(&self) -> &Semaphore {
        &self.permits
    }

    /// So many calls a server has in any case, whatever the others do.
    pub(crate) fn reserve(&self) -> &Semaphore {
        &self.reserve
    }

    /// Wakes a dormant server, and comes back when the server is no longer starting.
    pub(crate) async fn settled(&self) -> State {
        if self.state.borrow().phase == Phase::Dormant {
            self.order(Control::Wake).await;
        }
        self.no_longer_starting().await
    }

    pub(crate) async fn no_longer_starting(&self) -> State {
        let mut state = self.state.clone();
        match state.wait_for(State::is_settled).await {
            Ok(settled) => settled.clone(),
            Err(_) => self.state(),
        }
    }

    /// The session that follows one that was lost, if it comes about before `until`.
    pub(crate) async fn next_session(&self, of: &Session, until: Instant) -> Option<Session> {
        let mut state = self.state.clone();
        let other = |state: &State| {
            let session = state.session.as_ref();
            session.is_some_and(|session| !session.is(of)) || state.has_given_up()
        };
        let followed = tokio::time::timeout_at(until, state.wait_for(other)).await;
        followed.ok()?.ok()?.session.clone()
    }

    /// Why the session that just ended did so: the owner knows the exit code and the last words.
    pub(crate) async fn reason_of_loss(&self) -> Option<String> {
        let mut state = self.state.clone();
        let told = state.wait_for(|state| state.session.is_none() && state.error().is_some());
        let state = tokio::time::timeout(FINDING_OUT, told).await.ok()?.ok()?;
        state.error()
    }

    pub(crate) async fn restart(&self) {
        self.order(Control::Restart).await;
    }

    pub(crate) async fn set_enabled(&self, enabled: bool) {
        self.order(|done| Control::SetEnabled(enabled, done)).await;
    }

    /// Lists the tools anew.
    pub(crate) async fn relist(&self) -> Relisted {
        self.order(Control::Relist).await.flatten()
    }

    /// Gives an order and waits until it is carried out, or the owner is gone.
    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Control) -> Option<T> {
        let (done, receipt) = oneshot::channel();
        self.orders.send(order(done)).await.ok()?;
        receipt.await.ok()
    }

    /// Asks the owner to end; [`Self::stopped`] tells when it has.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn stopped(&self) {
        let mut state = self.state.clone();
        // The owner going away without a word is an end too.
        let _ = state.wait_for(|state| state.phase == Phase::Stopped).await;
        while state.changed().await.is_ok() {}
    }

    pub(crate) fn status(&self, catalog: &Catalog) -> ServerStatus {
        self.note_use();
        let state = self.state();
        let described = self.described();
        let tools = catalog.tools_of(&self.profile.name);
        ServerStatus {
            name: self.profile.name.clone(),
            status: state.status(),
            server_info: state
                .hello
                .as_ref()
                .and_then(|handshake| handshake.server_info.clone()),
            error: state.error(),
            config: described.written.clone(),
            scope: Some(described.scope),
            tools: tools
                .map(|tool| ToolSummary::from(&*tool.definition))
                .collect(),
            detail: state.detail(),
        }
    }

    pub(crate) fn details(&self, catalog: &Catalog) -> ServerDetails {
        let state = self.state();
        let name = &self.profile.name;
        let refused = catalog
            .rejected()
            .iter()
            .filter(|tool| tool.id.server == *name);
        let refused = refused.map(|tool| format!("tool {}: {}", tool.id.tool, tool.reason));
        let unchecked = catalog.tools_of(name).filter_map(|tool| {
            let why = tool.input_schema.defect()?;
            Some(format!(
                "tool {}: its arguments are not checked: {why}",
                tool.id.tool
            ))
        });
        let notes = state.notes.iter().cloned().chain(refused).chain(unchecked);
        let stderr = state.stderr.as_ref().map(StderrTail::last_lines);
        ServerDetails {
            status: self.status(catalog),
            transport: self.profile.transport,
            phase: state.phase.public(),
            generation: state.generation,
            connect_time: state.connect_time,
            attempt: state.attempt,
            challenge: match state.phase {
                Phase::NeedsAuth(login) => Some(login.challenge),
                _ => None,
            },
            hello: state.hello.as_deref().cloned(),
            notes: notes.collect(),
            stderr: stderr.filter(|text| !text.is_empty()),
        }
    }

    /// The error of a request that the server cannot answer in this state.
    pub(crate) fn unavailable(&self, state: &State) -> Unavailable {
        Unavailable {
            server: self.profile.name.clone(),
            status: state.status(),
            reason: state.error(),
            hint: state.detail(),
            retry_in: self.next_attempt(),
        }
    }

    /// When the next attempt to reach the server is made, if it is away.
    fn next_attempt(&self) -> Option<Duration> {
        match self.state.borrow().phase {
            Phase::Retrying { at, .. } => Some(at.saturating_duration_since(Instant::now())),
            _ => None,
        }
    }
}
