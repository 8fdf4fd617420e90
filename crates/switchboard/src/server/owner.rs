//! The task that owns one server: its session, its process, its backoff.
//!
//! Orders come in through a bounded inbox, the state goes out on a `watch`; calls do not pass
//! through here. Invariant: the catalog knows a session's tools before anybody sees it as ready.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::ServerHandle;
use super::backoff::{Backoff, Failure as Setback, FailureKind, GiveUp, Verdict};
use super::connect::{ConnectError, Endpoint, Live, Site, connect};
use super::offerings::Announcing;
use super::relisting::{Relisting, ShelfLife, list};
use super::state::{Failure, Phase, State};
use crate::auth::login::LoginRequired;
use crate::catalog::paging::Listing;
use crate::catalog::{CatalogPublisher, ServerKey};
use crate::event::{Event, EventSink};
use crate::mcp::Tool;
use crate::session::list_changes::ListChangeKind;
use crate::session::{RequestError, SessionEnd};
use crate::status::{Attempt, ConnectStage};

/// What a server can be told. Each order is answered when it has been carried out.
#[derive(Debug)]
pub(crate) enum Control {
    /// Start it if it is not running; a failed one is tried again.
    Wake(oneshot::Sender<()>),
    /// End the session, if there is one, and make a new one.
    Restart(oneshot::Sender<()>),
    SetEnabled(bool, oneshot::Sender<()>),
    /// List its tools anew, if there is a session.
    Relist(oneshot::Sender<Relisted>),
}

/// What came of listing tools anew: nothing where there is no session.
pub(crate) type Relisted = Option<Result<(), RequestError>>;

pub(crate) struct Owner {
    pub(super) key: ServerKey,
    pub(super) site: Arc<Site>,
    pub(super) orders: mpsc::Receiver<Control>,
    pub(super) state: watch::Sender<State>,
    pub(super) catalog: Arc<CatalogPublisher>,
    pub(super) events: EventSink,
    pub(super) shelf_life: Arc<ShelfLife>,
    pub(super) backoff: Backoff,
    /// For the attempts after the first, so that the words in a status count right.
    pub(super) attempts: u32,
    /// The server whose place this one takes, until it is gone.
    pub(super) predecessor: Option<Arc<ServerHandle>>,
    /// When a session that the server forgot was last made anew at once.
    pub(super) renewed: Option<Instant>,
}

/// No more often is a session that the server forgot made anew at once.
const BETWEEN_RENEWALS: Duration = Duration::from_secs(10);

/// What the owner does next.
enum Step {
    /// Wait for an order.
    Rest,
    Connect,
    Serve(Box<Live>),
    RetryAt(Instant),
    End,
}

/// What woke the owner while a session is open.
enum Wake {
    Stop,
    Order(Option<Control>),
    StreamEnd,
    ListItem(Result<Listing<Tool>, RequestError>),
    Changed(ListChangeKind),
}

impl Owner {
    /// Runs until the server is stopped. A panic ends the one server, and says so.
    pub(super) async fn run(self) {
        let (stand, state, catalog) = (
            self.key.clone(),
            self.state.clone(),
            Arc::clone(&self.catalog),
        );
        if AssertUnwindSafe(self.own()).catch_unwind().await.is_err() {
            catalog.clear_tools(&stand);
            state.send_modify(|state| {
                state.session = None;
                state.phase = Phase::Failed(Failure {
                    error: "its task panicked".to_owned(),
                    hint: None,
                });
            });
        }
    }

    async fn own(mut self) {
        if let Some(predecessor) = self.predecessor.take() {
            // Two of them at a time might get in each other's way.
            let gone = predecessor.stopped();
            self.site.stop.run_until_cancelled(gone).await;
        }
        let mut step = match self.state.borrow().phase {
            Phase::Starting => Step::Connect,
            _ => Step::Rest,
        };
        loop {
            step = match step {
                Step::Rest => self.rest().await,
                Step::Connect => self.connect().await,
                Step::Serve(live) => self.serve(*live).await,
                Step::RetryAt(at) => self.wait_until(at).await,
                Step::End => break,
            };
        }
        self.catalog.remove(&self.key);
        // Not an event: whoever stopped it knows.
        self.state.send_modify(|state| {
            state.phase = Phase::Stopped;
            state.session = None;
        });
    }

    /// `ListChanges` the published state, and tells of it if it shows. (The countdown to the next attempt
    /// does not: it changes with every look.)
    fn publish(&self, change: impl FnOnce(&mut State)) {
        let showing = |state: &State| (state.status(), state.phase.public(), state.error());
        let mut shown = None;
        self.state.send_modify(|state| {
            let before = showing(state);
            change(state);
            if before != showing(state) {
                shown = Some((state.status(), state.error().or_else(|| state.detail())));
            }
        });
        if let Some((status, detail)) = shown {
            let reason = detail.as_deref().map(|detail| format!(": {detail}"));
            tracing::info!(
                "server {} is {status}{}",
                self.key.server,
                reason.unwrap_or_default()
            );
            let server = self.key.server.clone();
            self.events.send(|| Event::ServerChanged {
                server,
                status,
                detail,
            });
        }
    }

    async fn rest(&mut self) -> Step {
        let stop = self.site.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Step::End,
            order = self.orders.recv() => match order {
                None => Step::End,
                Some(Control::Wake(done) | Control::Restart(done)) => {
                    let step = if matches!(self.site.endpoint, Endpoint::Withheld) {
                        Step::Rest
                    } else {
                        self.begin_afresh();
                        Step::Connect
                    };
                    let _ = done.send(());
                    step
                }
                Some(Control::SetEnabled(enabled, done)) => {
                    let was_off = matches!(self.state.borrow().phase, Phase::Off { .. });
                    self.set_enabled(enabled);
                    let step = if was_off && enabled {
                        self.begin_afresh();
                        Step::Connect
                    } else {
                        Step::Rest
                    };
                    let _ = done.send(());
                    step
                }
                Some(Control::Relist(done)) => {
                    let _ = done.send(None);
                    Step::Rest
                }
            },
        }
    }

    /// Somebody asks for the server: earlier failures no longer count.
    fn begin_afresh(&mut self) {
        self.backoff.begin_afresh();
        self.attempts = 0;
        self.publish(|state| {
            state.phase = Phase::Starting;
            state.error = None;
        });
    }

    fn set_enabled(&self, enabled: bool) {
        self.catalog.set_enabled(&self.key, enabled);
        self.publish(|state| state.enabled = enabled);
    }

    async fn connect(&mut self) -> Step {
        self.publish(|state| state.phase = Phase::Starting);
        let began = Instant::now();
        let site = Arc::clone(&self.site);
        // Boxed, because most of the time there is none.
        let mut attempt = Box::pin(reach(&site));
        let stop = self.site.stop.clone();
        let outcome = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Step::End,
                order = self.orders.recv() => match order {
                    None => return Step::End,
                    Some(Control::Wake(done)) => drop(done.send(())),
                    Some(Control::Restart(done)) => {
                        let _ = done.send(());
                        return Step::Connect;
                    }
                    Some(Control::SetEnabled(enabled, done)) => {
                        self.set_enabled(enabled);
                        let _ = done.send(());
                    }
                    Some(Control::Relist(done)) => drop(done.send(None)),
                },
                outcome = &mut attempt => break outcome,
            }
        };
        match outcome {
            Ok((live, listing)) => self.ready(live, listing, began),
            Err(error) => self.failed(&error),
        }
    }

    fn ready(
        &mut self,
        live: Live,
        listing: Result<Listing<Tool>, RequestError>,
        began: Instant,
    ) -> Step {
        let problem = match listing {
            Ok(listing) => {
                self.backoff.proved_alive();
                self.attempts = 0;
                self.take_listing(listing);
                None
            }
            Err(error) => {
                self.catalog.set_available(&self.key, true);
                Some(format!("its tools could not be listed: {error}"))
            }
        };
        let connect_time = began.elapsed();
        let mut attempt = live.attempt.clone();
        attempt.failed_at = problem.as_ref().map(|_| ConnectStage::Listing);
        self.publish(|state| {
            state.phase = Phase::Ready;
            state.generation = state.generation.next();
            state.session = Some(live.session.clone());
            state.hello = live.session.handshake().cloned().map(Arc::new);
            state.error = problem;
            state.connect_time = Some(connect_time);
            state.attempt = Some(attempt);
            state.stderr.clone_from(&live.stderr);
        });
        Step::Serve(Box::new(live))
    }

    fn take_listing(&self, listing: Listing<Tool>) {
        for note in &listing.notes {
            let (server, note) = (self.key.server.clone(), note.clone());
            self.events.send(|| Event::ListingNoted { server, note });
        }
        self.shelf_life.begin(listing.ttl());
        self.remember(&listing.items);
        self.state
            .send_modify(|state| state.notes = Arc::new(listing.notes));
        self.catalog.set_tools(&self.key, listing.items, true);
    }

    fn remember(&self, tools: &[Tool]) {
        if let Some(key) = &self.site.memory_key {
            self.site.memory.remember_tools(key, tools);
        }
    }

    fn failed(&mut self, error: &ConnectError) -> Step {
        let kind = if error.is_permanent() {
            FailureKind::NotWorthRetrying
        } else if error.is_crash() && self.site.endpoint.is_child() {
            FailureKind::Crash
        } else {
            FailureKind::Unreachable
        };
        self.set_back(kind, error)
    }

    fn set_back(&mut self, kind: FailureKind, error: &ConnectError) -> Step {
        self.attempts += 1;
        let attempt = self.attempts;
        let stage = error.stage();
        self.state
            .send_modify(|state| state.attempt = Some(Attempt::failed_at(stage)));
        if let ConnectError::NeedsLogin(login) = error {
            return self.wait_for_login(login.clone());
        }
        let setback = Setback {
            retry_after: error.retry_after(),
            ..Setback::new(kind)
        };
        match self
            .backoff
            .after_failure(setback, Instant::now(), fastrand::f64())
        {
            Verdict::RetryIn(delay) => {
                let now = Instant::now();
                let at = self.site.spacing.place(now + delay, now);
                self.catalog.set_available(&self.key, false);
                self.publish(|state| {
                    state.phase = Phase::Retrying { attempt, at };
                    state.session = None;
                    state.error = Some(error.to_string());
                });
                Step::RetryAt(at)
            }
            Verdict::GiveUp(why) => {
                let error_text = match why {
                    GiveUp::NotWorthRetrying | GiveUp::Attempts { max: 0 } => error.to_string(),
                    why => format!("{why}: {error}"),
                };
                self.give_up(Failure {
                    error: error_text,
                    hint: error.hint(),
                })
            }
        }
    }

    fn give_up(&self, failure: Failure) -> Step {
        self.catalog.clear_tools(&self.key);
        self.publish(|state| {
            state.phase = Phase::Failed(failure);
            state.session = None;
        });
        Step::Rest
    }

    /// Trying again would not log anybody in.
    fn wait_for_login(&self, login: Box<LoginRequired>) -> Step {
        self.catalog.clear_tools(&self.key);
        self.publish(|state| {
            state.phase = Phase::NeedsAuth(login);
            state.session = None;
        });
        Step::Rest
    }

    /// Whether a session that the server forgot is made anew at once. A server that forgets one
    /// after the other has to wait as others do.
    fn may_renew(&mut self) -> bool {
        let now = Instant::now();
        let may = self
            .renewed
            .is_none_or(|renewed| now - renewed >= BETWEEN_RENEWALS);
        if may {
            self.renewed = Some(now);
        }
        may
    }

    async fn wait_until(&mut self, mut at: Instant) -> Step {
        let stop = self.site.stop.clone();
        let mut slept = self.site.health.resumed.clone();
        slept.mark_unchanged();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Step::End,
                order = self.orders.recv() => match order {
                    None => return Step::End,
                    Some(Control::Wake(done) | Control::Restart(done)) => {
                        self.begin_afresh();
                        let _ = done.send(());
                        return Step::Connect;
                    }
                    Some(Control::SetEnabled(enabled, done)) => {
                        self.set_enabled(enabled);
                        let _ = done.send(());
                    }
                    Some(Control::Relist(done)) => drop(done.send(None)),
                },
                () = tokio::time::sleep_until(at) => return Step::Connect,
                // Whatever was wrong before: the machine has slept, and may be elsewhere by now.
                Ok(()) = slept.changed(), if self.site.endpoint.is_remote() => {
                    let now = Instant::now();
                    at = self.site.spacing.place(now, now);
                }
            }
        }
    }

    async fn serve(&mut self, mut live: Live) -> Step {
        let mut relisting = Relisting::new(self.state.borrow().error.is_some());
        let mut announcing = Announcing::new();
        loop {
            let stop = self.site.stop.clone();
            let session = live.session.clone();
            let wake = tokio::select! {
                biased;
                () = stop.cancelled() => Wake::Stop,
                order = self.orders.recv() => Wake::Order(order),
                () = live.ended() => Wake::StreamEnd,
                outcome = relisting.next(&self.site, &session, &self.shelf_life) => Wake::ListItem(outcome),
                change = announcing.next(&session) => Wake::Changed(change),
            };
            match wake {
                Wake::Stop | Wake::Order(None) => {
                    // Not an event: whoever stopped it knows.
                    self.state.send_modify(|state| state.phase = Phase::Lost);
                    self.stop_serving(live).await;
                    return Step::End;
                }
                Wake::Order(Some(Control::Wake(done))) => drop(done.send(())),
                Wake::Order(Some(Control::SetEnabled(enabled, done))) => {
                    self.set_enabled(enabled);
                    let _ = done.send(());
                }
                Wake::Order(Some(Control::Relist(done))) => relisting.ask(done),
                Wake::Order(Some(Control::Restart(done))) => {
                    self.catalog.set_available(&self.key, false);
                    self.begin_afresh();
                    self.stop_serving(live).await;
                    let _ = done.send(());
                    return Step::Connect;
                }
                Wake::StreamEnd => {
                    self.catalog.set_available(&self.key, false);
                    self.publish(|state| {
                        state.phase = Phase::Lost;
                        state.session = None;
                        state.error = None;
                    });
                    let had_child = live.has_child();
                    let end = live.session.ended().await;
                    if end == SessionEnd::Expired && self.may_renew() {
                        live.shut_down().await;
                        return Step::Connect;
                    }
                    if matches!(end, SessionEnd::TooManyFailures(_)) {
                        self.backoff.failed_in_use(live.age());
                    }
                    let error = live.post_mortem(&self.site).await;
                    self.publish(|state| state.error = Some(error.to_string()));
                    live.shut_down().await;
                    let kind = if had_child {
                        FailureKind::Crash
                    } else {
                        FailureKind::Unreachable
                    };
                    return self.set_back(kind, &error);
                }
                Wake::Changed(change) => announcing.tell(change, &self.key.server, &self.events),
                Wake::ListItem(Ok(listing)) => {
                    self.backoff.proved_alive();
                    self.take_listing(listing);
                    self.publish(|state| state.error = None);
                    relisting.tell(&Ok(()));
                }
                Wake::ListItem(Err(error)) => {
                    let problem = format!("its tools could not be listed: {error}");
                    self.publish(|state| state.error = Some(problem));
                    relisting.tell(&Err(error));
                }
            }
        }
    }

    /// Nobody sees the session any more, then it is ended.
    async fn stop_serving(&self, live: Live) {
        self.publish(|state| state.session = None);
        live.shut_down().await;
    }
}

/// A session and its first listing, which may fail without failing the session.
async fn reach(site: &Site) -> Result<(Live, Result<Listing<Tool>, RequestError>), ConnectError> {
    let end = Instant::now() + site.deadlines.startup;
    let mut live = connect(site, end).await?;
    let began = Instant::now();
    let listing = list(site, &live.session, end).await;
    live.attempt.listing = Some(began.elapsed());
    if let Err(RequestError::Lost { .. }) = &listing {
        return Err(live.post_mortem(site).await);
    }
    Ok((live, listing))
}
