//! A scripted model behind the Messages API, on loopback.
//!
//! The server responds to `POST /v1/messages` with an event stream, or with one JSON message if the
//! request does not ask for a stream. It responds to `POST /v1/messages/count_tokens` with a fixed
//! number and to all other paths with 404. The responses come from a queue of [`Turn`]s, or are
//! computed from the request. Every request for a message is recorded, except requests for a single
//! token. Clients send requests for a single token to check whether a model exists; the server
//! always accepts them.
//!
//! Invariants: tool use ids are unique per server, because the CLI takes a repeated id for an
//! interrupted call. A request after the last turn gets a status that clients do not retry.

mod connection;
mod request;
mod turn;

use std::collections::VecDeque;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use request::{ModelRequest, ToolOutcome};
pub use turn::{Block, Turn};

/// How long a test waits for requests, in real time. The CLI starts slowly on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// A scripted model on loopback. Dropping it stops the server.
#[derive(Debug)]
pub struct FakeModel {
    address: SocketAddr,
    state: Arc<ModelState>,
    task: JoinHandle<()>,
}

type Responder = dyn Fn(&ModelRequest) -> Turn + Send + Sync;

struct ModelState {
    /// The queue of remaining turns. Not used if a responder is set.
    turns: Mutex<VecDeque<Turn>>,
    respond: Option<Box<Responder>>,
    requests: Mutex<Vec<ModelRequest>>,
    changed: watch::Sender<()>,
    /// The last number that was used in an id.
    last: AtomicU64,
}

impl FakeModel {
    /// Starts a model that responds with these turns, one per request.
    pub async fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::serve(turns.into_iter().collect(), None).await
    }

    /// Starts a model that computes each turn from the request.
    pub async fn with_responder(
        respond: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static,
    ) -> Self {
        Self::serve(VecDeque::new(), Some(Box::new(respond))).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the server outlives this call and its handle is kept"
    )]
    async fn serve(turns: VecDeque<Turn>, respond: Option<Box<Responder>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let state = Arc::new(ModelState {
            turns: Mutex::new(turns),
            respond,
            requests: Mutex::default(),
            changed: watch::Sender::new(()),
            last: AtomicU64::new(0),
        });
        Self {
            address: listener.local_addr().expect("it is bound"),
            task: tokio::spawn(connection::accept(Arc::clone(&state), listener)),
            state,
        }
    }

    /// The base URL for a client of the Messages API.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Appends turns to the queue.
    pub fn push(&self, turns: impl IntoIterator<Item = Turn>) {
        self.state.turns().extend(turns);
    }

    /// Number of turns in the queue.
    pub fn remaining_turns(&self) -> usize {
        self.state.turns().len()
    }

    /// All recorded requests so far, in order.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.state.requests().clone()
    }

    /// The last recorded request. Panics if there is none.
    pub fn last_request(&self) -> ModelRequest {
        let last = self.state.requests().last().cloned();
        last.expect("the model received a request")
    }

    /// Waits until `count` requests are recorded. Panics after 90 seconds.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut changes = self.state.changed.subscribe();
        let received = changes.wait_for(|()| self.state.requests().len() >= count);
        let outcome = tokio::time::timeout(WAIT_TIMEOUT, received).await;
        assert!(
            outcome.is_ok(),
            "waited for {count} requests, received {}",
            self.state.requests().len()
        );
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ModelState {
    fn turns(&self) -> MutexGuard<'_, VecDeque<Turn>> {
        self.turns.lock().expect("the lock is not poisoned")
    }

    fn requests(&self) -> MutexGuard<'_, Vec<ModelRequest>> {
        self.requests.lock().expect("the lock is not poisoned")
    }

    /// Records the request and returns the turn with which to respond.
    fn next_turn(&self, request: ModelRequest) -> Turn {
        let turn = match &self.respond {
            Some(respond) => respond(&request),
            None => self
                .turns()
                .pop_front()
                .unwrap_or_else(|| Turn::error(400, "the model has no turn left for this request")),
        };
        self.requests().push(request);
        self.changed.send_replace(());
        turn
    }

    /// Returns a number that is unique among the ids of this server.
    fn next_number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl fmt::Debug for ModelState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ModelState")
            .field("turns", &self.turns)
            .field("requests", &self.requests().len())
            .finish_non_exhaustive()
    }
}
