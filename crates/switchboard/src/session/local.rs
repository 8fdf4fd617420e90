//! A session with a server that lives in this process: no text in between, no handshake.
//!
//! What the server does wrong concerns the one request: a panic is its error, and what never comes
//! back ends at its deadline. Invariant: when the session is closed nothing of it goes on, and the
//! server is only let go of.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::changes::{Change, Changes};
use super::life::{Life, Patience};
use super::listed::Listed;
use super::subscriptions::Subscriptions;
use super::{Delivery, RequestError, SessionEnd, ToolRequest};
use crate::inprocess::panicked as in_words;
use crate::limits::Limits;
use crate::mcp::{
    CallToolResult, ErrorObject, GetPromptResult, ProtocolVersion, ReadResourceResult,
    ServerCapabilities, ServerHello,
};
use crate::transport::memory::{LocalCall, LocalNotice, LocalServer};
use crate::wire::decode::{LeftOut, Page};

pub(crate) struct LocalSession {
    server: Arc<dyn LocalServer>,
    limits: Arc<Limits>,
    hello: ServerHello,
    life: Arc<Life>,
    pub(super) changes: Changes,
    pub(super) subscriptions: Subscriptions,
    /// Cancelled when the session is over.
    stop: CancellationToken,
}

impl std::fmt::Debug for LocalSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalSession")
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}

impl LocalSession {
    /// Fails, in words, if the server panics when it is asked about itself.
    pub(crate) fn open(
        server: Arc<dyn LocalServer>,
        limits: &Arc<Limits>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, String> {
        // Listened to before anything is listed, so that no change falls between the two.
        let introduction = || (server.notices(), hello_of(&*server));
        let introduction = catch_unwind(AssertUnwindSafe(introduction));
        let (notices, hello) = introduction.map_err(|payload| {
            let what = "the server's account of itself (notices, capabilities, implementation)";
            let ErrorObject { message, .. } = in_words(what, payload.as_ref());
            format!("{message}: this is a defect of the server")
        })?;
        let session = Arc::new(Self {
            server,
            limits: Arc::clone(limits),
            hello,
            life: Arc::new(Life::new()),
            changes: Changes::default(),
            subscriptions: Subscriptions::told(tasks),
            stop,
        });
        match notices {
            Some(notices) => {
                session.changes.hear_all();
                tasks.spawn(Arc::clone(&session).attend(notices));
            }
            None => session.subscriptions.deafen(SILENT.into()),
        }
        Ok(session)
    }

    pub(super) fn hello(&self) -> &ServerHello {
        &self.hello
    }

    /// What the server offers now, which may be more than when the session began.
    pub(super) fn capabilities(&self) -> ServerCapabilities {
        catch_unwind(AssertUnwindSafe(|| self.server.capabilities()))
            .unwrap_or_else(|_| self.hello.capabilities.clone())
    }

    /// Ends it: what is under way is lost.
    pub(super) fn close(&self) {
        self.stop.cancel();
    }

    /// Comes back when it was closed.
    pub(super) async fn ended(&self) -> SessionEnd {
        self.stop.cancelled().await;
        SessionEnd::Closed
    }

    /// Takes what the server says by itself, until the session is over.
    async fn attend(self: Arc<Self>, mut notices: broadcast::Receiver<LocalNotice>) {
        let attending = async {
            loop {
                match notices.recv().await {
                    Ok(notice) => self.noticed(&notice),
                    Err(RecvError::Lagged(_)) => {
                        self.changes.note_all();
                        self.subscriptions.note_all();
                    }
                    Err(RecvError::Closed) => break,
                }
            }
            self.changes.hear_none();
            self.subscriptions.deafen(SILENT.into());
        };
        self.stop.run_until_cancelled(attending).await;
    }

    fn noticed(&self, notice: &LocalNotice) {
        self.life.touch();
        match notice {
            LocalNotice::ToolsChanged => self.changes.note(Change::Tools),
            LocalNotice::ResourcesChanged => self.changes.note(Change::Resources),
            LocalNotice::PromptsChanged => self.changes.note(Change::Prompts),
            LocalNotice::ResourceUpdated(uri) => self.subscriptions.updated_at(uri),
        }
    }

    /// All that the server has of a kind.
    pub(super) fn list<T: Listed>(&self) -> Result<Page<T>, RequestError> {
        let items = catch_unwind(AssertUnwindSafe(|| T::of_local(&*self.server)));
        let items = items.map_err(|_| panicked(&format!("the listing of {}s", T::WHAT)))?;
        let mut page = Page::only(Vec::with_capacity(items.len()));
        for (index, item) in items.into_iter().enumerate() {
            if index > T::most(&self.limits) {
                // One more than is kept, so that it shows.
                break;
            }
            if item.known_by().is_empty() {
                page.left_out.push(LeftOut {
                    what: format!("number {}", index + 1),
                    why: "it has nothing to be known by".to_owned(),
                });
            } else {
                page.items.push(item);
            }
        }
        Ok(page)
    }

    pub(super) async fn call_tool(
        &self,
        request: &ToolRequest<'_>,
    ) -> Result<CallToolResult, RequestError> {
        let call = LocalCall::new(request, &self.life);
        let tool = request.errand.tool();
        let work = async { self.server.call(call).await };
        let mut result = self
            .within(request.patience, work, || format!("the tool {tool}"))
            .await?;
        result.blocks_left_out += cut(&mut result.content, self.limits.content_blocks);
        Ok(result)
    }

    pub(super) async fn read(
        &self,
        uri: &str,
        patience: Patience,
    ) -> Result<ReadResourceResult, RequestError> {
        let work = async { self.server.read(uri).await };
        let mut result = self
            .within(patience, work, || format!("the reading of {uri}"))
            .await?;
        result.left_out += cut(&mut result.contents, self.limits.content_blocks);
        Ok(result)
    }

    pub(super) async fn prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
        patience: Patience,
    ) -> Result<GetPromptResult, RequestError> {
        let work = async { self.server.prompt(name, arguments).await };
        let mut result = self
            .within(patience, work, || format!("the prompt {name}"))
            .await?;
        result.left_out += cut(&mut result.messages, self.limits.content_blocks);
        Ok(result)
    }

    /// Waits for the server as long as there is patience, and the session is open.
    async fn within<T>(
        &self,
        patience: Patience,
        work: impl Future<Output = Result<T, ErrorObject>>,
        what: impl FnOnce() -> String,
    ) -> Result<T, RequestError> {
        let wait = patience.start(&self.life);
        // Work that always uses up its share of the thread would leave the clock none to look with.
        let run_out = unconstrained(wait.run_out(&self.life));
        tokio::select! {
            biased;
            outcome = AssertUnwindSafe(work).catch_unwind() => match outcome {
                Ok(answer) => answer.map_err(RequestError::Refused),
                Err(_) => Err(panicked(&what())),
            },
            () = self.stop.cancelled() => Err(RequestError::Lost {
                delivery: Delivery::Unknown,
                end: SessionEnd::Closed,
            }),
            expired = run_out => Err(RequestError::TimedOut {
                after: expired.after,
                idle: expired.idle,
                delivery: Delivery::Unknown,
                misaddressed: false,
            }),
        }
    }
}

/// Why nothing is heard of a server.
const SILENT: &str = "the server says nothing by itself";

fn hello_of(server: &dyn LocalServer) -> ServerHello {
    ServerHello {
        version: ProtocolVersion::LATEST_MODERN,
        server_info: Some(server.implementation()),
        capabilities: server.capabilities(),
        instructions: server.instructions(),
    }
}

fn panicked(what: &str) -> RequestError {
    RequestError::Refused(ErrorObject::new(
        ErrorObject::INTERNAL,
        format!("{what} panicked"),
    ))
}

/// Keeps no more than `most`, and says how many that leaves out.
fn cut<T>(items: &mut Vec<T>, most: usize) -> usize {
    let left_out = items.len().saturating_sub(most);
    items.truncate(most);
    left_out
}
