//! Polls one task until it ends, across reconnects, and answers its input requests.
//!
//! Polling is idempotent, so a failed poll is retried until the deadline of the call. Every
//! response of the server resets the idle limit. Invariant: an input request is answered once, even
//! if the server repeats it.

mod responses;

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
/// Bounds of the poll interval.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Random share by which a poll is delayed, so that many tasks do not poll at once.
const POLL_JITTER: f64 = 0.1;
/// Maximum number of consecutive internal errors of the server.
const MAX_INTERNAL_ERRORS: u32 = 3;
/// Maximum length of the key of an input request, in bytes. Keys are kept to detect repetitions.
const MAX_KEY_BYTES: usize = 1024;

type ResultRequest = BoxFuture<'static, Result<RawResult, RequestError>>;

pub(super) struct TaskPoller<'a> {
    request: &'a ToolRequest<'a>,
    task: CancelTaskOnDrop,
    /// Poll interval that the server set.
    interval: Option<Duration>,
    /// Lifetime of the task that the server set.
    ttl: Option<Duration>,
    /// Poll without waiting for the interval.
    poll_now: bool,
    /// Keys of the input requests that were answered.
    answered: HashSet<String>,
    /// Number of rounds of input requests.
    rounds: usize,
    /// Answers to input requests, to be sent with `tasks/update`.
    responses: Option<Map<String, Value>>,
    /// The open `tasks/result` request (2025-11-25).
    result_request: Option<ResultRequest>,
    /// The task has ended and is not polled. `tasks/result` is in flight.
    result_only: bool,
    /// `tasks/result` returned an error once.
    result_failed: bool,
    status_progress: StatusProgress,
    /// The error of the last poll, if it failed.
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
            // The response that created the task was activity of the server.
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

    /// Answers input requests. If the session ends first, the answers are dropped: the next session
    /// receives the requests again if they are still open.
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

    /// Waits for the result, for a poll, or for the next session.
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
            // The next poll shows whether the server still knows the task.
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

    /// Sends pending answers, or polls the task after the interval. Retries transient failures.
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

    /// Waits after a transient failure.
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

    /// Delay before the next poll: the interval of the server within bounds, but at most half of
    /// the idle limit and of the task's lifetime.
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

    /// Continues on the session that follows a lost one.
    async fn continue_on_next_session(
        &mut self,
        lost: &Session,
        error: RequestError,
    ) -> Result<Wake, RequestError> {
        let end = match error {
            RequestError::Lost { end, .. } => end,
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

    /// Forwards a status message as progress.
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

    /// The task id, sanitized for messages.
    fn shown_id(&self) -> String {
        switchboard_wire::text::one_line(&self.redacted(&self.task.id), 100).into_owned()
    }

    /// The error for a task that failed or was cancelled by the server.
    fn failed(&mut self, mut error: ErrorObject) -> RequestError {
        self.task.maybe_running = false;
        if let Some(peer) = self.task.session.peer() {
            peer.context.redactor.redact_error(&mut error);
        }
        RequestError::ErrorResponse(error)
    }

    /// The error for a task that can be neither polled nor cancelled any more.
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

fn task_query<'a>(method: &'static str, id: &'a str) -> Query<'a> {
    // The deadline of the whole task is checked in `run`.
    Query::new(method, Deadline::after(Deadlines::MAX)).with_subject("taskId", id)
}

/// Whether a poll may succeed on the same session after this error and `failures` earlier ones.
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

/// Waits for the open `tasks/result` request, or forever without one.
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
    /// Number of status messages, which is the value of the progress.
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
