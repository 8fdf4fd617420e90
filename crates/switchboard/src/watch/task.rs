//! The task behind one watch: it waits for its server, looks when there is reason to, and notes what it
//! saw.
//!
//! Invariants: it looks at one time in one place, so no look overlaps another; while its server is away
//! it waits for the next session and asks for nothing.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::snapshot::Content;
use super::table::{Condition, Entry, Watches};
use super::{WatchKind, WatchTarget};
use crate::call::{CallError, Consent};
use crate::host::{Host, QueryError};
use crate::id::{ServerName, ToolName};
use crate::limits::LARGE;
use crate::server::ServerHandle;
use crate::server::state::{Phase, State};
use crate::session::subscriptions::{Subscription, SubscriptionEvent};
use crate::session::{Session, run_blocking};

/// What a server says in a burst is looked at once: when it has been quiet for so long, and no later
/// than that.
const QUIET: Duration = Duration::from_millis(150);
const BURST: Duration = Duration::from_secs(1);
/// The interval grows with every failure in a row, up to this many times itself, as a power of two.
const SLOWEST: u32 = 4;
/// What was lost on its way says little the first time.
const LOST_IN_A_ROW: u32 = 3;
/// A server that is over but still there is looked for again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

type Began = oneshot::Sender<Result<(), QueryError>>;

pub(super) struct Watcher {
    host: Host,
    entry: Arc<Entry>,
    consent: Consent,
    /// Who waits for the first look.
    began: Option<Began>,
    /// Failures in a row.
    failures: u32,
    /// The last look brought nothing.
    is_blind: bool,
    /// When to look again by ourselves.
    next_look: Instant,
}

/// Why a look brought nothing.
enum Trouble {
    /// The question, the answer or the server was lost: it may be asked again.
    Lost(String),
    Failed(String),
    NotPermitted(String),
    /// Nothing matters any more.
    Over,
}

/// What a subscriber wakes up for.
enum Wake {
    Gone,
    Heard(SubscriptionEvent),
    Look,
}

impl Watcher {
    pub(super) fn new(host: Host, entry: Arc<Entry>, began: Began) -> Self {
        Self {
            host,
            entry,
            consent: Consent::default(),
            began: Some(began),
            failures: 0,
            is_blind: false,
            next_look: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        let stop = self.entry.stop.clone();
        stop.run_until_cancelled(self.follow()).await;
    }

    fn watches(&self) -> &Watches {
        self.host.shared().watches()
    }

    /// Follows the server from session to session, until it is removed.
    async fn follow(&mut self) {
        if matches!(self.entry.target, WatchTarget::Tool { .. }) {
            // A call takes as long as it takes, and somebody may have to be asked first.
            self.begin(Ok(())).await;
        }
        while let Some((server, session)) = self.next_session().await {
            match &self.entry.target {
                WatchTarget::Resource { uri } if self.entry.is_subscription() => {
                    let uri = uri.clone();
                    self.attend(&server, &session, &uri).await;
                }
                _ => self.poll(&server, &session).await,
            }
        }
        let why = format!(
            "server {} was removed: the watch is over",
            self.entry.server
        );
        self.watches().end(&self.entry, &why);
    }

    /// The next session with the server, however long it takes; none when there is no such server.
    async fn next_session(&mut self) -> Option<(Arc<ServerHandle>, Session)> {
        let mut last: Option<Arc<ServerHandle>> = None;
        loop {
            let server = self.host.server_for_good(&self.entry.server).await?;
            if last.is_some_and(|last| Arc::ptr_eq(&last, &server)) {
                sleep(LOOK_AGAIN).await;
            }
            let mut state = server.follow();
            if state.borrow().phase == Phase::Dormant {
                server.settled().await;
            }
            loop {
                let now = state.borrow_and_update().clone();
                if let Some(session) = now.session.clone().filter(|_| now.enabled) {
                    return Some((server, session));
                }
                self.note_absence(&now).await;
                if now.phase == Phase::Stopped {
                    break;
                }
                if state.changed().await.is_err() {
                    break;
                }
            }
            last = Some(server);
        }
    }

    /// A server that comes back by itself is waited for; one that does not is worth a word.
    async fn note_absence(&mut self, state: &State) {
        let is_over = state.phase == Phase::Stopped || state.phase == Phase::Dormant;
        let comes_back = state.enabled && !state.has_given_up();
        if is_over || comes_back {
            return;
        }
        if self.began.is_some() {
            let error = QueryError::Unavailable {
                server: self.entry.server.clone(),
                status: state.status(),
                reason: state.error(),
                hint: state.detail(),
            };
            self.begin(Err(error)).await;
        }
        let why = state.error().or_else(|| state.detail());
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let status = state.status();
        let summary = format!("server {} is {status}{why}", self.entry.server);
        self.watches()
            .fares(&self.entry, Condition::Failed, &summary);
    }

    /// Looks whenever the server says that something changed. A server that does not say is polled.
    async fn attend(&mut self, server: &ServerHandle, session: &Session, uri: &str) {
        let subscribed = tokio::select! {
            biased;
            () = gone(server, session) => return,
            subscribed = session.subscribe(uri) => subscribed,
        };
        let why = match subscribed {
            Ok(mut subscription) => {
                self.note_means(WatchKind::Subscription, None);
                // What changed before it was subscribed to is found by looking.
                self.look().await;
                match self.hear(server, session, &mut subscription).await {
                    Some(why) => why,
                    None => return,
                }
            }
            Err(untold) => untold.0,
        };
        self.note_means(WatchKind::Poll, Some(why));
        self.poll(server, session).await;
    }

    /// Comes back when the session is gone, or with why nothing more is told.
    async fn hear(
        &mut self,
        server: &ServerHandle,
        session: &Session,
        subscription: &mut Subscription,
    ) -> Option<Arc<str>> {
        loop {
            let wake = tokio::select! {
                biased;
                () = gone(server, session) => Wake::Gone,
                notice = subscription.next() => Wake::Heard(notice),
                () = sleep_until(self.next_look), if self.is_blind => Wake::Look,
            };
            match wake {
                Wake::Gone => return None,
                Wake::Heard(SubscriptionEvent::Ended(reason)) => return Some(reason.0),
                Wake::Heard(SubscriptionEvent::Updated) => {
                    let_settle(subscription).await;
                    self.look().await;
                }
                Wake::Look => self.look().await,
            }
        }
    }

    /// Looks at intervals, until the session is gone.
    async fn poll(&mut self, server: &ServerHandle, session: &Session) {
        loop {
            tokio::select! {
                biased;
                () = gone(server, session) => return,
                () = sleep_until(self.next_look) => {}
            }
            self.look().await;
        }
    }

    fn note_means(&self, means: WatchKind, note: Option<Arc<str>>) {
        self.watches().set_means(&self.entry, means, note);
    }

    /// Looks at what is there now, and notes what came of it.
    async fn look(&mut self) {
        let outcome = match &self.entry.target {
            WatchTarget::Resource { uri } => self.read(uri).await,
            WatchTarget::Tool { name, .. } => self.call(name).await,
        };
        self.is_blind = outcome.is_err();
        match outcome {
            Ok(content) => {
                self.failures = 0;
                self.watches()
                    .fares(&self.entry, Condition::Fine, "it can be read again");
                self.watches().saw(&self.entry, content);
                self.begin(Ok(())).await;
            }
            Err(error) => {
                if self.began.is_some()
                    && let LookError::Ask(error) = error
                {
                    self.begin(Err(error)).await;
                    return;
                }
                self.note_trouble(error.into());
            }
        }
        let interval = self.entry.interval * (1 << self.failures.min(SLOWEST));
        let jitter = 0.9 + 0.2 * fastrand::f64();
        self.next_look = Instant::now() + interval.mul_f64(jitter);
    }

    fn note_trouble(&mut self, trouble: Trouble) {
        let (condition, summary) = match trouble {
            Trouble::NotPermitted(why) => {
                self.failures = 0;
                (Condition::NotPermitted, why)
            }
            Trouble::Failed(why) => {
                self.failures = self.failures.saturating_add(1);
                (Condition::Failed, why)
            }
            Trouble::Lost(why) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures < LOST_IN_A_ROW {
                    return;
                }
                (Condition::Failed, why)
            }
            Trouble::Over => return,
        };
        self.watches().fares(&self.entry, condition, &summary);
    }

    /// Tells whoever waits for it how the watch began.
    async fn begin(&mut self, outcome: Result<(), QueryError>) {
        let is_failure = outcome.is_err();
        if let Some(began) = self.began.take() {
            // Nobody may wait any more: then the watch is being removed.
            let _ = began.send(outcome);
            if is_failure {
                pending::<()>().await;
            }
        }
    }

    async fn read(&self, uri: &str) -> Result<Content, LookError> {
        let result = self.host.read_resource_raw(self.entry.server.as_str(), uri);
        let result = result.await.map_err(LookError::Ask)?;
        let most = self.host.shared().limits().watch_text_bytes;
        let parts = result.contents.iter();
        let size: usize = parts
            .map(|body| {
                body.text
                    .as_ref()
                    .or(body.blob.as_ref())
                    .map_or(0, String::len)
            })
            .sum();
        if size <= LARGE {
            return Ok(Content::of_resource(&result, most));
        }
        let looked = run_blocking(move || Content::of_resource(&result, most)).await;
        looked.map_err(|_| LookError::Ask(QueryError::ShuttingDown))
    }

    async fn call(&self, tool: &ToolName) -> Result<Content, LookError> {
        let WatchTarget::Tool { arguments, .. } = &self.entry.target else {
            return Err(LookError::Ask(QueryError::ShuttingDown));
        };
        let wire_name = crate::catalog::naming::wire_name(&self.entry.server, tool);
        let arguments = arguments.clone();
        let call = self.host.call(wire_name.as_str(), arguments);
        let call = call
            .context(self.entry.context.clone())
            .watched(&self.consent);
        let output = call.await.map_err(LookError::Call)?;
        let most = self.host.shared().limits().watch_text_bytes;
        Ok(Content::of_output(&output, most))
    }
}

enum LookError {
    Ask(QueryError),
    Call(CallError),
}

impl From<LookError> for Trouble {
    fn from(error: LookError) -> Self {
        match error {
            LookError::Ask(QueryError::ShuttingDown) | LookError::Call(CallError::ShuttingDown) => {
                Self::Over
            }
            LookError::Ask(
                error @ (QueryError::Unavailable { .. }
                | QueryError::ConnectionLost { .. }
                | QueryError::UnknownServer(_)),
            ) => Self::Lost(error.to_string()),
            LookError::Ask(error @ QueryError::Denied { .. }) => {
                Self::NotPermitted(error.to_string())
            }
            LookError::Ask(error) => Self::Failed(format!("it cannot be read: {error}")),
            LookError::Call(
                error @ (CallError::Unavailable { .. }
                | CallError::NotSent { .. }
                | CallError::OutcomeUnknown { .. }),
            ) => Self::Lost(error.to_string()),
            LookError::Call(error @ CallError::Denied { .. }) => {
                Self::NotPermitted(error.to_string())
            }
            LookError::Call(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Waits until a server that says a lot has said it.
async fn let_settle(subscription: &mut Subscription) {
    let end = Instant::now() + BURST;
    loop {
        sleep_until(end.min(Instant::now() + QUIET)).await;
        if !subscription.take_pending() || Instant::now() >= end {
            return;
        }
    }
}

/// Comes back when a server no longer has this session, or exposes nothing of it.
async fn gone(server: &ServerHandle, session: &Session) {
    let mut state: watch::Receiver<State> = server.follow();
    let is_gone = |state: &State| {
        let current = state.session.as_ref().filter(|_| state.enabled);
        !current.is_some_and(|current| current.is(session))
    };
    // An owner that is gone has no session either.
    let _ = state.wait_for(is_gone).await;
}

impl Host {
    /// A server by name. One that is being replaced at this moment is waited for.
    async fn server_for_good(&self, name: &ServerName) -> Option<Arc<ServerHandle>> {
        if let Some(server) = self.shared().server(name) {
            return Some(server);
        }
        self.shared().no_longer_changing().await;
        self.shared().server(name)
    }
}
