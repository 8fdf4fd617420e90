//! A session with a server in this process: direct calls, no JSON, no handshake.
//!
//! If the server panics during a request, only this request fails. A tool call, resource or prompt
//! request that does not complete fails at its deadline; a listing has no deadline. Invariant:
//! closing the session drops the requests in flight and does not stop the server.

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

/// Why resource subscriptions are rejected if the server has no notification channel, or closed it.
const NO_NOTIFICATIONS: &str = "the server does not send notifications";

/// A session with a server in this process.
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
            .field("handshake", &self.handshake)
            .finish_non_exhaustive()
    }
}

impl LocalSession {
    /// Opens a session. Fails if the server panics while it returns its notification channel,
    /// capabilities, implementation or instructions.
    pub(crate) fn open(
        server: Arc<dyn LocalServer>,
        limits: &Arc<Limits>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, String> {
        // Subscribe to notifications before the first listing. Otherwise a change between the
        // listing and the subscription would be missed.
        let describe = || (server.notifications(), handshake_of(&*server));
        let described = catch_unwind(AssertUnwindSafe(describe));
        let (notifications, handshake) = described.map_err(|payload| {
            let message = panic_message(payload.as_ref()).unwrap_or("no message");
            format!(
                "describing the server (notifications, capabilities, implementation) panicked: \
                 {message}; this is a bug in the server"
            )
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

    /// The current capabilities of the server. If the server panics, returns the capabilities from
    /// when the session was opened.
    pub(super) fn capabilities(&self) -> ServerCapabilities {
        catch_unwind(AssertUnwindSafe(|| self.server.capabilities()))
            .unwrap_or_else(|_| self.handshake.capabilities.clone())
    }

    /// Ends the session. Requests in flight fail with [`RequestError::Lost`].
    pub(super) fn close(&self) {
        self.stop.cancel();
    }

    /// Waits until the session is closed.
    pub(super) async fn ended(&self) -> SessionEnd {
        self.stop.cancelled().await;
        SessionEnd::Closed
    }

    /// Handles notifications until the session ends or the server closes the channel.
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

    /// Lists the items of a kind. Skips items without a name or URI.
    pub(super) fn list<T: ListItem>(&self) -> Result<Page<T>, RequestError> {
        let items = catch_unwind(AssertUnwindSafe(|| T::list_local(&*self.server)));
        let items = items.map_err(|_| panicked(&format!("listing {}s", T::NOUN)))?;
        let mut page = Page::single(Vec::with_capacity(items.len()));
        for (index, item) in items.into_iter().enumerate() {
            if index > T::max_items(&self.limits) {
                // Stop at one item more than the limit. The surplus item tells the caller that the
                // listing is cut.
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

    pub(super) async fn read_resource(
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

    pub(super) async fn get_prompt(
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

    /// Awaits `work` until the deadline or the end of the session. If `work` panics, the error
    /// contains the text that `name` returns.
    async fn run_until_deadline<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<T, ErrorObject>>,
        name: impl FnOnce() -> String,
    ) -> Result<T, RequestError> {
        let running = deadline.start(&self.clock);
        // Exempt the timer from tokio's coop budget. Otherwise `work` could use up the budget in
        // every poll, and the timer would never fire.
        let expired = unconstrained(running.expired(&self.clock));
        tokio::select! {
            biased;
            outcome = AssertUnwindSafe(work).catch_unwind() => match outcome {
                Ok(result) => result.map_err(RequestError::ErrorResponse),
                Err(_) => Err(panicked(&name())),
            },
            () = self.stop.cancelled() => Err(RequestError::Lost {
                delivery: Delivery::Unknown,
                end: SessionEnd::Closed,
            }),
            expired = expired => Err(RequestError::timed_out(expired)),
        }
    }
}

fn handshake_of(server: &dyn LocalServer) -> ServerHello {
    ServerHello::new(
        ProtocolVersion::LATEST_MODERN,
        Some(server.implementation()),
        server.capabilities(),
        server.instructions(),
    )
}

fn panicked(name: &str) -> RequestError {
    RequestError::ErrorResponse(ErrorObject::new(
        ErrorObject::INTERNAL,
        format!("{name} panicked"),
    ))
}

/// Truncates `items` to `max` items. Returns the number of items that were dropped.
fn truncate_counting<T>(items: &mut Vec<T>, max: usize) -> usize {
    let dropped = items.len().saturating_sub(max);
    items.truncate(max);
    dropped
}

/// Forwards the progress of a call to its caller, and restarts the idle limits of the session.
/// Progress is dropped if the caller's channel is full.
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
