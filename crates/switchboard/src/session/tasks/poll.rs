//! The poller of one task, from its making to its end.
//!
//! Asking for a task changes nothing, so what fails on its way is asked again, as long as there is
//! deadline: all of it for the task as a whole, and some without a sign of life, which every answer
//! of the server is. Invariant: nobody is asked the same question twice, whatever the server repeats.

mod responses;

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cancel::CancelTaskOnDrop;
use super::is_modern;
use crate::interact::BoxFuture;
use crate::limits::Deadlines;
use crate::mcp::{CallToolResult, ErrorObject, Progress};
use crate::session::deadline::{Deadline, Expired};
use crate::session::input_required::{self, invalid_response, never_not_sent};
use crate::session::peer::Peer;
use crate::session::query::Query;
use crate::session::{Delivery, RequestError, Session, SessionEnd, ToolRequest, TransportFailure};
use crate::wire::Answer;
use crate::wire::decode::{InputRequest, Task, TaskStatus};

/// How often a server is asked that does not say how often.
const INTERVAL: Duration = Duration::from_secs(1);
/// More often than this no server is asked, and less often than that neither.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// How much later than its time a question may come, so that those of many tasks do not come at once.
const POLL_JITTER: f64 = 0.1;
/// How often in a row a server may answer that something went wrong inside of it.
const MAX_INTERNAL_ERRORS: u32 = 3;
/// Longer names of questions than this are not remembered, in bytes, and so not answered.
const KEY_BYTES: usize = 1024;

type Fetch = BoxFuture<'static, Result<Answer, RequestError>>;

pub(super) struct TaskPoller<'a> {
    request: &'a ToolRequest<'a>,
    task: CancelTaskOnDrop,
    /// How often the server wants to be asked, and how long it keeps the task.
    interval: Option<Duration>,
    ttl: Option<Duration>,
    /// There is reason to ask without waiting for the time to do so.
    poll_now: bool,
    /// The names of the questions that were asked, and how often some were.
    asked: HashSet<String>,
    rounds: usize,
    /// Answers that are still to be given.
    responses: Option<Map<String, Value>>,
    /// The result on its way, where it has to be asked for, and whether there is nothing else to
    /// wait for.
    fetch: Option<Fetch>,
    result_only: bool,
    was_refused: bool,
    status_progress: StatusProgress,
    /// Why the server could not be asked the last time, and how often in a row that was.
    last_error: Option<String>,
    failures: u32,
}

/// What the server, or the way to it, has brought.
enum Wake {
    StillWorking,
    /// It wants to know something.
    Asked(Vec<InputRequest>),
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
            interval: task.interval,
            ttl: task.kept_for,
            poll_now: task.status != TaskStatus::Working,
            asked: HashSet::new(),
            rounds: 0,
            responses: None,
            fetch: None,
            result_only: false,
            was_refused: false,
            status_progress: StatusProgress::default(),
            last_error: None,
            failures: 0,
        };
        poller.tell(task.message);
        poller
    }

    pub(super) async fn run(mut self) -> Result<CallToolResult, RequestError> {
        let mut deadline = self.request.deadline;
        if let Some(peer) = self.task.session.peer() {
            // The answer that made the task was a sign of life.
            deadline = deadline.start(&peer.clock).after_activity(&peer.clock);
        }
        loop {
            let session = self.task.session.clone();
            let peer = peer_of(&session)?;
            let wait = deadline.start(&peer.clock);
            let wake = tokio::select! {
                biased;
                wake = self.next(&session) => wake?,
                expired = wait.expired(&peer.clock) => return Err(self.timeout_error(expired)),
            };
            deadline = wait.after_activity(&peer.clock);
            match wake {
                Wake::StillWorking => {}
                Wake::Done(result) => return Ok(result),
                Wake::Asked(requests) => {
                    let began = Instant::now();
                    self.answer(&session, peer, requests).await?;
                    deadline = deadline.extended_by(began.elapsed());
                }
            }
        }
    }

    /// Has questions answered. If the session ends meanwhile they are taken back: the next one will
    /// bring them again, if they still matter.
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
            answers = input_required::answers(peer, requests) => {
                self.responses = Some(answers?);
                self.asked.extend(keys);
            }
        }
        Ok(())
    }

    /// Waits for what comes next: of the result, of the state of the task, or of the session.
    async fn next(&mut self, session: &Session) -> Result<Wake, RequestError> {
        let mut fetch = self.fetch.take();
        let is_update = self.responses.is_some();
        let (fetched, looked) = tokio::select! {
            biased;
            answer = fetched(&mut fetch) => (Some(answer), None),
            answer = self.look(session) => (None, Some(answer)),
        };
        if let Some(answer) = fetched {
            return self.take_result(session, answer).await;
        }
        self.fetch = fetch;
        match looked {
            Some(Ok(_)) if is_update => {
                self.responses = None;
                Ok(Wake::StillWorking)
            }
            Some(Ok(answer)) => self.take_state(session, answer).await,
            // Whether it still knows the task is seen when it is asked for it.
            Some(Err(RequestError::ErrorResponse(_))) if is_update => {
                self.responses = None;
                self.poll_now = true;
                Ok(Wake::StillWorking)
            }
            Some(Err(RequestError::ErrorResponse(error))) => {
                let why = format!("the server no longer knows its task {}: {error}", self.id());
                Err(self.unknown_outcome(why))
            }
            Some(Err(error)) => self.continue_on_next_session(session, error).await,
            None => Ok(Wake::StillWorking),
        }
    }

    /// Gives the answers that are due, or else asks for the task when it is time; again and again
    /// if the way to the server fails.
    async fn look(&mut self, session: &Session) -> Result<Answer, RequestError> {
        if self.result_only {
            return pending().await;
        }
        loop {
            let id = self.task.id.clone();
            let query = if let Some(responses) = &self.responses {
                about("tasks/update", &id).with("inputResponses", responses.clone())
            } else {
                tokio::time::sleep(self.pause()).await;
                about("tasks/get", &id)
            };
            self.poll_now = false;
            match session.query(&query).await {
                Err(error) if is_retryable(&error, self.failures) => {
                    self.wait_after_error(error).await
                }
                outcome => {
                    (self.last_error, self.failures) = (None, 0);
                    return outcome;
                }
            }
        }
    }

    /// Waits a little after a failure that says nothing of the task.
    async fn wait_after_error(&mut self, error: RequestError) {
        let asked = match &error {
            RequestError::Transport(failed) => failed.retry_after,
            _ => None,
        };
        self.last_error = Some(error.to_string());
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(asked.unwrap_or(INTERVAL).clamp(MIN_POLL_INTERVAL, LONGEST)).await;
    }

    /// How long to wait before the server is asked: as long as it says, within reason, and not so
    /// long that the task is forgotten or given up meanwhile.
    fn pause(&self) -> Duration {
        if self.poll_now {
            return Duration::ZERO;
        }
        let mut pause = self.interval.unwrap_or(INTERVAL).min(LONGEST);
        for bound in [self.request.deadline.idle(), self.ttl] {
            pause = pause.min(bound.map_or(LONGEST, |bound| bound / 2));
        }
        pause
            .max(MIN_POLL_INTERVAL)
            .mul_f64(1.0 + POLL_JITTER * fastrand::f64())
    }

    /// Goes on with the session that follows one that was lost.
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
        let until = Instant::now() + Deadlines::LONGEST;
        let next = self.request.target.next_session(lost, until).await;
        let next = next.filter(|next| is_modern(next) == self.is_modern());
        let Some(next) = next else {
            let id = self.id();
            let why = format!("{end}, and its task {id} could not be asked for again");
            return Err(self.unknown_outcome(why));
        };
        self.task.session = next;
        self.fetch = None;
        (self.result_only, self.poll_now) = (false, true);
        Ok(Wake::StillWorking)
    }

    /// Tells whoever wants to know what the server says of the task.
    fn tell(&mut self, message: Option<String>) {
        if let (Some(listener), Some(message)) = (&self.request.progress, message) {
            let message = self.redacted(&message);
            self.status_progress.report(listener, message);
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

    /// The id as it can be shown.
    fn id(&self) -> String {
        crate::content::field(&self.redacted(&self.task.id), 100).into_owned()
    }

    /// The server says that it came to nothing.
    fn failed(&mut self, mut error: ErrorObject) -> RequestError {
        self.task.maybe_running = false;
        if let Some(peer) = self.task.session.peer() {
            peer.context.redactor.redact_error(&mut error);
        }
        RequestError::ErrorResponse(error)
    }

    /// Nobody knows any more what became of it, and nobody can be told to stop.
    fn unknown_outcome(&mut self, why: String) -> RequestError {
        self.task.maybe_running = false;
        RequestError::Transport(TransportFailure::unknown(why))
    }

    fn timeout_error(&self, Expired { after, idle }: Expired) -> RequestError {
        match &self.last_error {
            Some(last_error) => RequestError::Transport(TransportFailure::unknown(format!(
                "its task {} could not be asked for: {last_error}",
                self.id()
            ))),
            None => RequestError::TimedOut {
                after,
                idle,
                delivery: Delivery::Unknown,
                saw_unknown_ids: false,
            },
        }
    }
}

fn about<'a>(method: &'static str, id: &'a str) -> Query<'a> {
    // The time of the task as a whole is kept elsewhere.
    Query::new(method, Deadline::after(Deadlines::LONGEST)).with_subject("taskId", id)
}

/// The failure of a request that may succeed the next time, on the same session, after so many
/// that did not.
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

/// The result, if it was asked for.
async fn fetched(fetch: &mut Option<Fetch>) -> Result<Answer, RequestError> {
    match fetch {
        Some(fetch) => fetch.await,
        None => pending().await,
    }
}

fn peer_of(session: &Session) -> Result<&Peer, RequestError> {
    let peer = session.peer();
    peer.ok_or_else(|| invalid_response("a server in this process has no tasks"))
}

/// The status messages of a task that were forwarded as progress.
#[derive(Default)]
struct StatusProgress {
    last: Option<String>,
    count: u32,
    /// StatusProgress dropped since the last one that was taken.
    skipped: u64,
}

impl StatusProgress {
    /// Forwards a status message if it differs from the last one.
    fn report(&mut self, listener: &mpsc::Sender<Progress>, message: String) {
        if self.last.as_ref() == Some(&message) {
            return;
        }
        let progress = Progress {
            message: Some(message.clone()),
            skipped: self.skipped,
            ..Progress::new(self.count.into())
        };
        self.skipped = match listener.try_send(progress) {
            Ok(()) => 0,
            Err(_) => self.skipped + 1,
        };
        self.count = self.count.saturating_add(1);
        self.last = Some(message);
    }
}
