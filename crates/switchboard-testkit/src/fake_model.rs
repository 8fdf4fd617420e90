//! A scripted model behind the Messages API, on loopback.
//!
//! It answers `POST /v1/messages` with a stream of events, or with one message if none is asked for, and
//! `POST /v1/messages/count_tokens` with a number. It knows no other path. What it says is a queue of [`Turn`]s, or chosen by a function of the
//! request. Every request is kept, so that a test can say what reached the model. A request for a single
//! token is none: by it a client finds out whether there is such a model, and there is.
//!
//! Invariants: no two tool uses of one server have the same id, because the CLI takes a repeated one for
//! an interrupted call. A request after the last turn is refused with a status that is not tried again.

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

/// How long a test waits for a request: a CLI that starts on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(90);

/// A scripted model on loopback. Dropping it stops it.
#[derive(Debug)]
pub struct FakeModel {
    address: SocketAddr,
    shared: Arc<ModelState>,
    task: JoinHandle<()>,
}

type Choose = dyn Fn(&ModelRequest) -> Turn + Send + Sync;

struct ModelState {
    /// What is said next, if no function decides.
    turns: Mutex<VecDeque<Turn>>,
    choose: Option<Box<Choose>>,
    requests: Mutex<Vec<ModelRequest>>,
    changed: watch::Sender<()>,
    /// The last number that an id was made of.
    last: AtomicU64,
}

impl FakeModel {
    /// Starts a model that says these turns, one for each request.
    pub async fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::serve(turns.into_iter().collect(), None).await
    }

    /// Starts a model that decides by the request what it says.
    pub async fn answering(choose: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static) -> Self {
        Self::serve(VecDeque::new(), Some(Box::new(choose))).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the server outlives this call and its handle is kept"
    )]
    async fn serve(turns: VecDeque<Turn>, choose: Option<Box<Choose>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("there is a free port");
        let shared = Arc::new(ModelState {
            turns: Mutex::new(turns),
            choose,
            requests: Mutex::default(),
            changed: watch::Sender::new(()),
            last: AtomicU64::new(0),
        });
        Self {
            address: listener.local_addr().expect("it is bound"),
            task: tokio::spawn(connection::accept(Arc::clone(&shared), listener)),
            shared,
        }
    }

    /// The base URL for a client.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Says these turns too, after all that are still to be said.
    pub fn push(&self, turns: impl IntoIterator<Item = Turn>) {
        self.shared.turns().extend(turns);
    }

    /// How many turns have not been said yet.
    pub fn left(&self) -> usize {
        self.shared.turns().len()
    }

    /// Every request for a message so far, in order.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.requests().clone()
    }

    /// The last request for a message.
    pub fn last_request(&self) -> ModelRequest {
        let last = self.shared.requests().last().cloned();
        last.expect("the model has been asked")
    }

    /// Waits until the model has been asked so often. Panics if it is not.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut changes = self.shared.changed.subscribe();
        let enough = changes.wait_for(|()| self.shared.requests().len() >= count);
        let outcome = tokio::time::timeout(PATIENCE, enough).await;
        assert!(
            outcome.is_ok(),
            "waited for {count} requests, there were {}",
            self.shared.requests().len()
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
        self.turns.lock().expect("no holder panics")
    }

    fn requests(&self) -> MutexGuard<'_, Vec<ModelRequest>> {
        self.requests.lock().expect("no holder panics")
    }

    /// Keeps the request, and says what is said to it.
    fn next_turn(&self, request: ModelRequest) -> Turn {
        let turn = match &self.choose {
            Some(choose) => choose(&request),
            None => self.turns().pop_front().unwrap_or_else(|| {
                Turn::refused(400, "the script of the model is over: give it another turn")
            }),
        };
        self.requests().push(request);
        self.changed.send_replace(());
        turn
    }

    /// A number that no other id of this server is made of.
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
