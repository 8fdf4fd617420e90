//! Polls one task until it ends, across reconnects, and answers its input requests.
//!
//! Polls are idempotent: a poll that failed with a transient error is repeated until the deadline
//! of the call. Internal errors of the server are retried at most [`MAX_INTERNAL_ERRORS`] times in
//! a row. Every successful response of the server restarts the idle limit. Invariant: an input
//! request that was answered is not answered again, even if the server repeats it.

mod server_responses;

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cancel::CancelTaskOnDrop;
use super::is_modern;
use crate::deadlines::Deadlines;
use crate::session::deadline::{Deadline, Expired};
use crate::session::input_required::{self, invalid_response, never_not_sent};
use crate::session::peer::Peer;
use crate::session::progress::ProgressForwarder;
use crate::session::query::Query;
use crate::session::{RequestError, Session, SessionEnd, ToolRequest, TransportFailure};
use switchboard_wire::BoxFuture;
use switchboard_wire::decode::{InputRequest, Task, TaskStatus};
use switchboard_wire::jsonrpc::RawResult;
use switchboard_wire::mcp::{CallToolResult, ErrorObject, Progress};

/// Poll interval, unless the server sets one.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Lower bound of the poll interval.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// A poll is delayed by a random part of its interval, up to this fraction. The delay keeps many
/// tasks from polling at the same moment.
const POLL_JITTER: f64 = 0.1;
/// How many consecutive internal errors of the server are retried.
const MAX_INTERNAL_ERRORS: u32 = 3;
/// Maximum length of the key of an input request, in bytes. The poller stores the keys of answered
/// requests, and the limit bounds their memory.
const MAX_KEY_BYTES: usize = 1024;

type ResultRequest = BoxFuture<'static, Result<RawResult, RequestError>>;

pub(super) struct TaskPoller<'a> {
    request: &'a ToolRequest<'a>,
    task: CancelTaskOnDrop,
    /// Poll interval that the server set. `None`: [`DEFAULT_POLL_INTERVAL`].
    interval: Option<Duration>,
    /// How long the server keeps the task. `None` if the server did not say.
    ttl: Option<Duration>,
    /// Whether the next poll is sent without waiting for the interval.
    poll_now: bool,
    /// Keys of the input requests that were answered.
    answered: HashSet<String>,
    /// How many polls brought new input requests.
    rounds: usize,
    /// Answers that the next request sends with `tasks/update`. `None` if there are none to send.
    responses: Option<Map<String, Value>>,
    /// The `tasks/result` request in flight (2025-11-25 only).
    result_request: Option<ResultRequest>,
    /// Whether the task has ended and only its result is missing. Then `tasks/result` is in flight
    /// and the task is not polled.
    result_only: bool,
    /// Whether `tasks/result` has returned an error.
    result_failed: bool,
    status_progress: StatusProgress,
    /// The error of the last poll. `None` if the last poll succeeded.
    last_error: Option<String>,
    /// Number of consecutive failed polls.
    failures: u32,
}

enum Wake {
    StillWorking,
    InputRequired(Vec<InputRequest>),
    Done(CallToolResult),
}

impl<'a> TaskPoller<'a> {
    pub(super) fn new(session: &Session, request: &'a ToolRequest<'a>, task: Task) -> Self {
        let mut poller = Self {
            request,
            task: CancelTaskOnDrop {
                session: session.clone(),
                id: task.id,
                maybe_running: true,
            },
            interval: task.poll_interval,
            ttl: task.ttl,
            poll_now: task.status != TaskStatus::Working,
            answered: HashSet::new(),
            rounds: 0,
            responses: None,
            result_request: None,
            result_only: false,
            result_failed: false,
            status_progress: StatusProgress::new(request.progress.clone()),
            last_error: None,
            failures: 0,
        };
        poller.report_status(task.status_message);
        poller
    }

    pub(super) async fn run(mut self) -> Result<CallToolResult, RequestError> {
        let mut deadline = self.request.deadline;
        if let Some(peer) = self.task.session.peer() {
            // The server just responded with the new task, so restart the idle limit.
            deadline = deadline.start(&peer.clock).after_activity(&peer.clock);
        }
        loop {
            let session = self.task.session.clone();
            let peer = peer_of(&session)?;
            let running = deadline.start(&peer.clock);
            let wake = tokio::select! {
                biased;
                wake = self.next(&session) => wake?,
                expired = running.expired(&peer.clock) => return Err(self.timeout_error(expired)),
            };
            deadline = running.after_activity(&peer.clock);
            match wake {
                Wake::StillWorking => {}
                Wake::Done(result) => return Ok(result),
                Wake::InputRequired(requests) => {
                    let asked_at = Instant::now();
                    self.answer(&session, peer, requests).await?;
                    deadline = deadline.extended_by(asked_at.elapsed());
                }
            }
        }
    }

    /// Answers input requests. If the session ends before all are answered, the answers are
    /// dropped. The server repeats open input requests when the new session polls the task.
    async fn answer(
        &mut self,
        session: &Session,
        peer: &Peer,
        requests: Vec<InputRequest>,
    ) -> Result<(), RequestError> {
        let keys: Vec<_> = requests.iter().map(|request| request.key.clone()).collect();
        tokio::select! {
            biased;
            _ = session.ended() => {}
            answers = input_required::answer_all(peer, requests) => {
                self.responses = Some(answers?);
                self.answered.extend(keys);
            }
        }
        Ok(())
    }

    /// Waits for the response to `tasks/result` or to the next poll, and handles it. If the session
    /// is lost, waits for the next session instead.
    async fn next(&mut self, session: &Session) -> Result<Wake, RequestError> {
        let mut result_request = self.result_request.take();
        let is_update = self.responses.is_some();
        let (result, polled) = tokio::select! {
            biased;
            result = result_of(&mut result_request) => (Some(result), None),
            polled = self.poll(session) => (None, Some(polled)),
        };
        if let Some(result) = result {
            return self.on_result(session, result).await;
        }
        self.result_request = result_request;
        match polled {
            Some(Ok(_)) if is_update => {
                self.responses = None;
                Ok(Wake::StillWorking)
            }
            Some(Ok(state)) => self.on_state(session, state).await,
            // The server rejected the answers. The next poll shows whether the server still knows
            // the task.
            Some(Err(RequestError::ErrorResponse(_))) if is_update => {
                self.responses = None;
                self.poll_now = true;
                Ok(Wake::StillWorking)
            }
            Some(Err(RequestError::ErrorResponse(error))) => {
                let why = format!(
                    "the server no longer knows its task {}: {error}",
                    self.shown_id()
                );
                Err(self.unknown_outcome(why))
            }
            Some(Err(error)) => self.continue_on_next_session(session, error).await,
            None => Ok(Wake::StillWorking),
        }
    }

    /// Sends the answers in `responses`, if any. Otherwise waits for the interval and polls the
    /// task. Retries transient failures. Never returns while `result_only` is set.
    async fn poll(&mut self, session: &Session) -> Result<RawResult, RequestError> {
        if self.result_only {
            return pending().await;
        }
        loop {
            let id = self.task.id.clone();
            let query = if let Some(responses) = &self.responses {
                task_query("tasks/update", &id).with("inputResponses", responses.clone())
            } else {
                tokio::time::sleep(self.poll_delay()).await;
                task_query("tasks/get", &id)
            };
            self.poll_now = false;
            match session.query(&query).await {
                Err(error) if is_retryable(&error, self.failures) => {
                    self.wait_after_error(error).await;
                }
                outcome => {
                    (self.last_error, self.failures) = (None, 0);
                    return outcome;
                }
            }
        }
    }

    /// Records a transient failure and waits before the next attempt: for the server's
    /// `Retry-After` or for [`DEFAULT_POLL_INTERVAL`].
    async fn wait_after_error(&mut self, error: RequestError) {
        let retry_after = match &error {
            RequestError::Transport(failed) => failed.retry_after,
            _ => None,
        };
        self.last_error = Some(error.to_string());
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(
            retry_after
                .unwrap_or(DEFAULT_POLL_INTERVAL)
                .clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL),
        )
        .await;
    }

    /// Delay before the next poll. Zero if `poll_now` is set. Otherwise the interval that the
    /// server set, but at most half of the idle limit and half of the task's lifetime, at least
    /// [`MIN_POLL_INTERVAL`], plus a random part.
    fn poll_delay(&self) -> Duration {
        if self.poll_now {
            return Duration::ZERO;
        }
        let mut delay = self
            .interval
            .unwrap_or(DEFAULT_POLL_INTERVAL)
            .min(MAX_POLL_INTERVAL);
        for bound in [self.request.deadline.idle(), self.ttl] {
            delay = delay.min(bound.map_or(MAX_POLL_INTERVAL, |bound| bound / 2));
        }
        delay
            .max(MIN_POLL_INTERVAL)
            .mul_f64(1.0 + POLL_JITTER * fastrand::f64())
    }

    /// Waits for the session that follows `lost` and continues to poll there. Fails if there is
    /// none, if its era is different, or if `error` does not mean that the session was lost.
    async fn continue_on_next_session(
        &mut self,
        lost: &Session,
        error: RequestError,
    ) -> Result<Wake, RequestError> {
        let end = match error {
            RequestError::Lost { end, .. } => end,
            RequestError::UnknownSession => SessionEnd::Expired,
            RequestError::NeedsLogin(login) => SessionEnd::NeedsLogin(login),
            error => return Err(never_not_sent(error)),
        };
        let until = Instant::now() + Deadlines::MAX;
        let next = self.request.target.next_session(lost, until).await;
        let next = next.filter(|next| is_modern(next) == self.is_modern());
        let Some(next) = next else {
            let id = self.shown_id();
            let why = format!("{end}, and its task {id} could not be polled again");
            return Err(self.unknown_outcome(why));
        };
        self.task.session = next;
        self.result_request = None;
        (self.result_only, self.poll_now) = (false, true);
        Ok(Wake::StillWorking)
    }

    /// Forwards the status message of the task as progress.
    fn report_status(&mut self, message: Option<String>) {
        if let Some(message) = message {
            let message = self.redacted(&message);
            self.status_progress.report(message);
        }
    }

    fn is_modern(&self) -> bool {
        is_modern(&self.task.session)
    }

    fn redacted(&self, text: &str) -> String {
        match self.task.session.peer() {
            Some(peer) => peer.context.redactor.redact(text),
            None => text.to_owned(),
        }
    }

    /// The task id in a form that is safe to show in an error message.
    fn shown_id(&self) -> String {
        switchboard_wire::text::one_line(&self.redacted(&self.task.id), 100).into_owned()
    }

    /// The error for a task that failed or that the server cancelled. Marks the task as ended.
    fn failed(&mut self, mut error: ErrorObject) -> RequestError {
        self.task.maybe_running = false;
        if let Some(peer) = self.task.session.peer() {
            peer.context.redactor.redact_error(&mut error);
        }
        RequestError::ErrorResponse(error)
    }

    /// The error for a task that can be neither polled nor cancelled any more. Its delivery is
    /// *unknown*.
    fn unknown_outcome(&mut self, why: String) -> RequestError {
        self.task.maybe_running = false;
        RequestError::Transport(TransportFailure::unknown(why))
    }

    fn timeout_error(&self, expired: Expired) -> RequestError {
        match &self.last_error {
            Some(last_error) => RequestError::Transport(TransportFailure::unknown(format!(
                "its task {} could not be polled: {last_error}",
                self.shown_id()
            ))),
            None => RequestError::timed_out(expired),
        }
    }
}

fn task_query<'a>(method: &'a str, id: &'a str) -> Query<'a> {
    // Polls have no deadline of their own: `run` checks the deadline of the call.
    Query::new(method, Deadline::after(Deadlines::MAX)).with_subject("taskId", id)
}

/// Whether to repeat a poll on the same session after `error`. `failures` is the number of
/// consecutive polls that failed before.
fn is_retryable(error: &RequestError, failures: u32) -> bool {
    match error {
        RequestError::ErrorResponse(error) => {
            error.code == ErrorObject::INTERNAL && failures < MAX_INTERNAL_ERRORS
        }
        RequestError::Transport(_)
        | RequestError::WriteQueueFull { .. }
        | RequestError::MemoryBudgetExceeded { .. } => true,
        _ => false,
    }
}

/// Waits for the response to `tasks/result`. Never returns if there is no such request.
async fn result_of(request: &mut Option<ResultRequest>) -> Result<RawResult, RequestError> {
    match request {
        Some(request) => request.await,
        None => pending().await,
    }
}

fn peer_of(session: &Session) -> Result<&Peer, RequestError> {
    let peer = session.peer();
    peer.ok_or_else(|| invalid_response("an in-process server has no tasks"))
}

/// Forwards the status messages of a task as progress.
struct StatusProgress {
    /// `None` if the caller did not ask for progress.
    forwarder: Option<ProgressForwarder>,
    /// The last status message.
    last: Option<String>,
    /// Number of forwarded status messages. Sent as the numeric value of the progress, which must
    /// increase.
    count: u32,
}

impl StatusProgress {
    fn new(listener: Option<mpsc::Sender<Progress>>) -> Self {
        Self {
            forwarder: listener.map(ProgressForwarder::new),
            last: None,
            count: 0,
        }
    }

    /// Forwards a status message if it differs from the last one.
    fn report(&mut self, message: String) {
        let Some(forwarder) = &mut self.forwarder else {
            return;
        };
        if self.last.as_ref() == Some(&message) {
            return;
        }
        forwarder.forward(Progress::new(self.count.into()).message(&*message));
        self.count = self.count.saturating_add(1);
        self.last = Some(message);
    }
}
