//! What a session knows of its server, whichever way the text between them travels.
//!
//! Here it is known what the server said of itself, what it tells unasked is taken, and the end of
//! the session is announced. Invariant: a session ends once, and the first reason is kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::changes::{Change, Changes};
use super::inbound::{self, Inbound};
use super::inquiry::Inquiry;
use super::life::Life;
use super::logs::{self, LogPace};
use super::subscriptions::Subscriptions;
use super::visits::Visits;
use super::{RequestError, SessionContext, SessionEnd, ToolRequest, wait_for_end};
use crate::budget::Held;
use crate::mcp::{Era, Progress, ProtocolVersion, ServerHello};
use crate::telemetry::Direction;
use crate::wire::encode::{self, Meta, Round, TaskTime};
use crate::wire::line::LetGo;
use crate::wire::{Problem, RequestId, decode};

/// How much of what a server wrote is kept for an error message, in bytes.
const SHOWN_BYTES: usize = 200;

pub(super) struct Peer {
    pub(super) context: SessionContext,
    pub(super) life: Life,
    hello: OnceLock<ServerHello>,
    pub(super) inbound: Inbound,
    pub(super) changes: Changes,
    pub(super) logs: Arc<LogPace>,
    pub(super) visits: Visits,
    /// What is being said to the server that nobody waits for.
    words: TaskTracker,
    pub(super) subscriptions: Subscriptions,
    ended: watch::Sender<Option<SessionEnd>>,
    /// Cancelled when the session is over.
    pub(super) stop: CancellationToken,
}

/// The side of a session that speaks: where answers to the server's requests go.
pub(super) trait Voice: Send + Sync + 'static {
    fn peer(&self) -> &Peer;

    /// Says something that no answer is expected to.
    fn say(self: &Arc<Self>, line: Vec<u8>);
}

impl Peer {
    pub(super) fn new(
        context: SessionContext,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            life: Life::new(),
            hello: OnceLock::new(),
            inbound: Inbound::new(tasks.clone(), context.limits.inbound_requests),
            changes: Changes::default(),
            logs: Arc::default(),
            visits: Visits::default(),
            words: TaskTracker::new(),
            subscriptions: Subscriptions::new(tasks),
            ended: watch::Sender::new(None),
            stop,
            context,
        }
    }

    pub(super) fn hello(&self) -> Option<&ServerHello> {
        self.hello.get()
    }

    /// Ends the handshake: from here on both sides speak this version.
    pub(super) fn establish(&self, hello: ServerHello) {
        let _ = self.hello.set(hello);
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.hello.get().map(|hello| hello.version)
    }

    /// A call as it goes to the server.
    pub(super) fn call_line(&self, id: u64, call: &ToolRequest<'_>) -> Vec<u8> {
        let meta = self.meta(Some(id), call.trace);
        let task = self.task_time(call);
        let tool = call.errand.tool();
        encode::call_tool(id, tool, call.arguments, call.round, task, &meta)
    }

    /// Any other question as it goes to the server.
    pub(super) fn inquiry_line(
        &self,
        id: u64,
        inquiry: &Inquiry<'_>,
        round: Option<&Round>,
    ) -> Vec<u8> {
        let meta = self.meta(None, None);
        encode::inquiry(id, inquiry.method, &inquiry.params, round, &meta)
    }

    /// What requests carry along: who we are (modern), a token for progress, the trace.
    pub(super) fn meta<'a>(&'a self, token: Option<u64>, trace: Option<&'a str>) -> Meta<'a> {
        let described = self
            .version()
            .filter(|version| version.era() == Era::Modern);
        self.describe(described, token, trace)
    }

    /// The same, for a version that may not be agreed on yet.
    pub(super) fn describe<'a>(
        &'a self,
        version: Option<ProtocolVersion>,
        token: Option<u64>,
        trace: Option<&'a str>,
    ) -> Meta<'a> {
        let offers = self.context.offers();
        Meta::new(version, &self.context.client, offers, token, trace)
            .log_level(self.context.log_level)
    }

    /// Whether it is a server of 2025-11-25 that runs tool calls as tasks.
    fn runs_tasks(&self) -> bool {
        self.hello.get().is_some_and(|hello| {
            hello.version == ProtocolVersion::V2025_11_25 && hello.capabilities.tasks
        })
    }

    /// For how long this call is to be a task, if it has to be one and can.
    pub(super) fn task_time(&self, call: &ToolRequest<'_>) -> Option<TaskTime> {
        (call.errand.needs_task() && self.runs_tasks()).then(|| TaskTime::of(call.patience.left()))
    }

    /// Says something to the server that nobody waits for, unless nothing runs any more.
    pub(super) fn spawn_word(&self, word: impl Future<Output = ()> + Send + 'static) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.inbound.spawn(self.words.track_future(word));
        }
    }

    /// Waits until what is being said has been said.
    pub(super) async fn words_said(&self) {
        self.words.close();
        self.words.wait().await;
    }

    pub(super) fn tap(&self, direction: Direction, line: &[u8]) {
        if let Some(tap) = &self.context.tap {
            let text = String::from_utf8_lossy(line);
            let text = self.context.redactor.redact(text.trim_end());
            let server = &self.context.server;
            let heard = catch_unwind(AssertUnwindSafe(|| tap.line(server, direction, &text)));
            if heard.is_err() {
                tracing::error!(%server, "the tap on the wire panicked");
            }
        }
    }

    /// Takes what the server tells unasked. Progress goes to whoever waits for it.
    pub(super) fn notified(
        &self,
        method: &str,
        params: &[u8],
        progress: impl FnOnce(u64, Progress),
    ) {
        self.life.touch();
        match method {
            "notifications/progress" => {
                if let Some((id, note)) = decode::progress(params) {
                    progress(id, note);
                }
            }
            "notifications/tools/list_changed" => self.changes.note(Change::Tools),
            "notifications/resources/list_changed" => self.changes.note(Change::Resources),
            "notifications/prompts/list_changed" => self.changes.note(Change::Prompts),
            "notifications/message" => logs::take(self, params),
            "notifications/elicitation/complete" => self.visits.end(params),
            "notifications/resources/updated" => self.subscriptions.updated(params),
            "notifications/subscriptions/acknowledged" => {
                self.changes.acknowledged(params);
                self.subscriptions.acknowledged(params);
            }
            "notifications/cancelled" => {
                self.inbound.cancel(params);
                self.changes.revoked(params);
                self.subscriptions.revoked(params);
            }
            _ => tracing::trace!(server = %self.context.server, method, "notification ignored"),
        }
    }

    /// The beginning of what a server wrote, without its secrets.
    pub(super) fn shown(&self, bytes: &[u8]) -> String {
        let bytes = bytes.trim_ascii();
        // Masked before it is cut, so that no half of a secret is left at the end.
        let some = bytes.get(..4 * SHOWN_BYTES).unwrap_or(bytes);
        let text = self.context.redactor.redact(&String::from_utf8_lossy(some));
        text.chars().take(SHOWN_BYTES).collect()
    }

    /// Why a message of the server was let go.
    pub(super) fn problem(&self, why: LetGo) -> Problem {
        match why {
            LetGo::TooLong => Problem::TooLong {
                limit: self.context.limits.message_bytes,
            },
            LetGo::NoRoom => Problem::NoRoom {
                limit: self.context.budget.limit(),
            },
        }
    }

    /// Room for a message of ours, for as long as what is returned is held.
    pub(super) fn room_for(&self, line: &[u8]) -> Result<Option<Held>, RequestError> {
        let limit = self.context.limits.message_bytes;
        if line.len() > limit {
            return Err(RequestError::TooLong { limit });
        }
        let mut held = None;
        if !self.context.budget.grow(&mut held, line.len()) {
            let limit = self.context.budget.limit();
            return Err(RequestError::NoRoom { limit });
        }
        Ok(held)
    }

    pub(super) async fn ended(&self) -> SessionEnd {
        wait_for_end(self.ended.subscribe()).await
    }

    /// Announces the end, unless it was announced before.
    pub(super) fn end(&self, end: SessionEnd) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(end);
            }
            first
        });
        self.stop.cancel();
    }
}

/// The server asks something of us.
pub(super) fn asked<V: Voice>(voice: &Arc<V>, id: RequestId, method: &str, params: &[u8]) {
    let peer = voice.peer();
    peer.life.touch();
    // Modern servers have no requests to make: what looks like one is not answered.
    let version = peer.version();
    if version.is_none_or(|version| version.era() == Era::Legacy) {
        inbound::take(voice, id, method, params);
    }
}
