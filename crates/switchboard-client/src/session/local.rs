//! A session with a server in this process: direct calls, no JSON, no handshake.
//!
//! A panic of the server fails the one request. A call that never returns ends at its deadline.
//! Invariant: closing the session drops its requests; the server itself lives on.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::Map;
use switchboard_wire::panic_message;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::deadline::{ActivityClock, Deadline};
use super::list_changes::{ListChangeKind, ListChanges};
use super::list_kind::ListItem;
use super::subscriptions::Subscriptions;
use super::{Delivery, RequestError, SessionEnd, SessionKey, ToolRequest};
use switchboard_wire::Limits;
use switchboard_wire::decode::{Page, SkippedItem};
use switchboard_wire::mcp::{
    CallToolResult, ErrorObject, GetPromptResult, Progress, ProtocolVersion, ReadResourceResult,
    ServerCapabilities, ServerHello,
};
use switchboard_wire::{LocalCall, LocalServer, ProgressSink, ServerNotification};

pub struct LocalSession {
    pub(super) key: SessionKey,
    server: Arc<dyn LocalServer>,
    limits: Arc<Limits>,
    handshake: ServerHello,
    clock: Arc<ActivityClock>,
    pub(super) list_changes: ListChanges,
    pub(super) subscriptions: Subscriptions,
    /// Cancelled when the session ends.
    stop: CancellationToken,
}

impl std::fmt::Debug for LocalSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalSession")
            .field("hello", &self.handshake)
            .finish_non_exhaustive()
    }
}

impl LocalSession {
    /// Opens a session. Fails if the server panics while it describes itself.
    pub(crate) fn open(
        server: Arc<dyn LocalServer>,
        limits: &Arc<Limits>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, String> {
        // Subscribe before anything is listed, or a change in between is lost.
        let describe = || (server.notifications(), handshake_of(&*server));
        let described = catch_unwind(AssertUnwindSafe(describe));
        let (notifications, handshake) = described.map_err(|payload| {
            let what = "the server's description (notifications, capabilities, implementation)";
            let message = panic_message(payload.as_ref()).unwrap_or("no message");
            format!("{what} panicked: {message}; this is a bug in the server")
        })?;
        let session = Arc::new(Self {
            key: SessionKey::next(),
            server,
            limits: Arc::clone(limits),
            handshake,
            clock: Arc::new(ActivityClock::new()),
            list_changes: ListChanges::default(),
            subscriptions: Subscriptions::without_requests(tasks),
            stop,
        });
        match notifications {
            Some(notifications) => {
                session.list_changes.set_all_receivable();
                tasks.spawn(Arc::clone(&session).watch_notifications(notifications));
            }
            None => session
                .subscriptions
                .mark_unavailable(NO_NOTIFICATIONS.into()),
        }
        Ok(session)
    }

    pub(super) fn handshake(&self) -> &ServerHello {
        &self.handshake
    }

    /// The current capabilities, which may have grown since the session was opened.
    pub(super) fn capabilities(&self) -> ServerCapabilities {
        catch_unwind(AssertUnwindSafe(|| self.server.capabilities()))
            .unwrap_or_else(|_| self.handshake.capabilities.clone())
    }

    /// Ends the session. Requests in flight are lost.
    pub(super) fn close(&self) {
        self.stop.cancel();
    }

    /// Waits until the session is closed.
    pub(super) async fn ended(&self) -> SessionEnd {
        self.stop.cancelled().await;
        SessionEnd::Closed
    }

    /// Handles notifications until the session ends.
    async fn watch_notifications(
        self: Arc<Self>,
        mut notifications: broadcast::Receiver<ServerNotification>,
    ) {
        let watch = async {
            loop {
                match notifications.recv().await {
                    Ok(notification) => self.on_notification(&notification),
                    Err(RecvError::Lagged(_)) => {
                        self.list_changes.record_all();
                        self.subscriptions.record_all();
                    }
                    Err(RecvError::Closed) => break,
                }
            }
            self.list_changes.set_none_receivable();
            self.subscriptions.mark_unavailable(NO_NOTIFICATIONS.into());
        };
        self.stop.run_until_cancelled(watch).await;
    }

    fn on_notification(&self, notification: &ServerNotification) {
        self.clock.touch();
        match notification {
            ServerNotification::ToolsChanged => self.list_changes.record(ListChangeKind::Tools),
            ServerNotification::ResourcesChanged => {
                self.list_changes.record(ListChangeKind::Resources);
            }
            ServerNotification::PromptsChanged => self.list_changes.record(ListChangeKind::Prompts),
            ServerNotification::ResourceUpdated(uri) => self.subscriptions.record_update(uri),
        }
    }

    /// Lists all items of a kind.
    pub(super) fn list<T: ListItem>(&self) -> Result<Page<T>, RequestError> {
        let items = catch_unwind(AssertUnwindSafe(|| T::list_local(&*self.server)));
        let items = items.map_err(|_| panicked(&format!("listing {}s", T::NOUN)))?;
        let mut page = Page::single(Vec::with_capacity(items.len()));
        for (index, item) in items.into_iter().enumerate() {
            if index > T::max_items(&self.limits) {
                // One item more than the limit stays in the page, so that the caller sees the excess.
                break;
            }
            if item.key().is_empty() {
                page.skipped.push(SkippedItem {
                    name: format!("number {}", index + 1),
                    reason: "it has no name or URI".to_owned(),
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
        let mut meta = Map::new();
        if let Some(trace) = request.trace {
            meta.insert("traceparent".to_owned(), trace.into());
        }
        let progress = CallProgress {
            clock: Arc::clone(&self.clock),
            sender: request.progress.clone(),
        };
        let tool = request.target.tool();
        let call = LocalCall::new(tool, request.arguments, meta, Some(&progress));
        let work = async { self.server.call_tool(call).await };
        let mut result = self
            .run_until_deadline(request.deadline, work, || format!("the tool {tool}"))
            .await?;
        result.blocks_left_out +=
            truncate_counting(&mut result.content, self.limits.content_blocks);
        Ok(result)
    }

    pub(super) async fn read(
        &self,
        uri: &str,
        deadline: Deadline,
    ) -> Result<ReadResourceResult, RequestError> {
        let work = async { self.server.read_resource(uri).await };
        let mut result = self
            .run_until_deadline(deadline, work, || format!("reading {uri}"))
            .await?;
        result.left_out += truncate_counting(&mut result.contents, self.limits.content_blocks);
        Ok(result)
    }

    pub(super) async fn prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
        deadline: Deadline,
    ) -> Result<GetPromptResult, RequestError> {
        let work = async { self.server.get_prompt(name, arguments).await };
        let mut result = self
            .run_until_deadline(deadline, work, || format!("the prompt {name}"))
            .await?;
        result.left_out += truncate_counting(&mut result.messages, self.limits.content_blocks);
        Ok(result)
    }

    /// Runs work of the server until its deadline, or until the session ends.
    async fn run_until_deadline<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<T, ErrorObject>>,
        what: impl FnOnce() -> String,
    ) -> Result<T, RequestError> {
        let running = deadline.start(&self.clock);
        // Not subject to the coop budget, or work that always exhausts it would starve the timer.
        let expired = unconstrained(running.expired(&self.clock));
        tokio::select! {
            biased;
            outcome = AssertUnwindSafe(work).catch_unwind() => match outcome {
                Ok(result) => result.map_err(RequestError::ErrorResponse),
                Err(_) => Err(panicked(&what())),
            },
            () = self.stop.cancelled() => Err(RequestError::Lost {
                delivery: Delivery::Unknown,
                end: SessionEnd::Closed,
            }),
            expired = expired => Err(RequestError::timed_out(expired)),
        }
    }
}

/// Why nothing is heard of a server.
const NO_NOTIFICATIONS: &str = "the server says nothing by itself";

fn handshake_of(server: &dyn LocalServer) -> ServerHello {
    ServerHello::new(
        ProtocolVersion::LATEST_MODERN,
        Some(server.implementation()),
        server.capabilities(),
        server.instructions(),
    )
}

fn panicked(what: &str) -> RequestError {
    RequestError::ErrorResponse(ErrorObject::new(
        ErrorObject::INTERNAL,
        format!("{what} panicked"),
    ))
}

/// Keeps no more than `most`, and says how many that leaves out.
fn truncate_counting<T>(items: &mut Vec<T>, most: usize) -> usize {
    let left_out = items.len().saturating_sub(most);
    items.truncate(most);
    left_out
}

/// Restarts the idle timeout of a call with every progress note, and forwards the note.
#[derive(Clone)]
struct CallProgress {
    clock: Arc<ActivityClock>,
    sender: Option<mpsc::Sender<Progress>>,
}

impl ProgressSink for CallProgress {
    fn report(&self, progress: Progress) {
        self.clock.touch();
        if let Some(sender) = &self.sender {
            let _ = sender.try_send(progress);
        }
    }

    fn to_shared(&self) -> Arc<dyn ProgressSink> {
        Arc::new(self.clone())
    }
}
