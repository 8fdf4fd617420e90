//! The course of one task, from its making to its end.
//!
//! Asking for a task changes nothing, so what fails on its way is asked again, as long as there is
//! patience: all of it for the task as a whole, and some without a sign of life, which every answer
//! of the server is. Invariant: nobody is asked the same question twice, whatever the server repeats.

mod taking;

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::cancel::Awaited;
use super::is_modern;
use super::notes::Notes;
use crate::interact::BoxFuture;
use crate::limits::Deadlines;
use crate::mcp::{CallToolResult, ErrorObject};
use crate::session::inquiry::Inquiry;
use crate::session::life::{Expired, Patience};
use crate::session::peer::Peer;
use crate::session::rounds::{self, known_to_the_server, malformed};
use crate::session::{Delivery, Failed, RequestError, Session, SessionEnd, ToolRequest};
use crate::wire::Answer;
use crate::wire::decode::{InputRequest, Task, TaskStatus};

/// How often a server is asked that does not say how often.
const INTERVAL: Duration = Duration::from_secs(1);
/// More often than this no server is asked, and less often than that neither.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// How much later than its time a question may come, so that those of many tasks do not come at once.
const SPREAD: f64 = 0.1;
/// How often in a row a server may answer that something went wrong inside of it.
const MISHAPS: u32 = 3;
/// Longer names of questions than this are not remembered, in bytes, and so not answered.
const KEY_BYTES: usize = 1024;

type Fetch = BoxFuture<'static, Result<Answer, RequestError>>;

pub(super) struct Course<'a> {
    request: &'a ToolRequest<'a>,
    task: Awaited,
    /// How often the server wants to be asked, and how long it keeps the task.
    interval: Option<Duration>,
    kept_for: Option<Duration>,
    /// There is reason to ask without waiting for the time to do so.
    is_due: bool,
    /// The names of the questions that were asked, and how often some were.
    asked: HashSet<String>,
    rounds: usize,
    /// Answers that are still to be given.
    responses: Option<Map<String, Value>>,
    /// The result on its way, where it has to be asked for, and whether there is nothing else to
    /// wait for.
    fetch: Option<Fetch>,
    is_over: bool,
    was_refused: bool,
    notes: Notes,
    /// Why the server could not be asked the last time, and how often in a row that was.
    trouble: Option<String>,
    failures: u32,
}

/// What the server, or the way to it, has brought.
enum Wake {
    /// It is still at work.
    Alive,
    /// It wants to know something.
    Asked(Vec<InputRequest>),
    Done(CallToolResult),
}

impl<'a> Course<'a> {
    pub(super) fn new(session: &Session, request: &'a ToolRequest<'a>, task: Task) -> Self {
        let mut course = Self {
            request,
            task: Awaited {
                session: session.clone(),
                id: task.id,
                may_run: true,
            },
            interval: task.interval,
            kept_for: task.kept_for,
            is_due: task.status != TaskStatus::Working,
            asked: HashSet::new(),
            rounds: 0,
            responses: None,
            fetch: None,
            is_over: false,
            was_refused: false,
            notes: Notes::default(),
            trouble: None,
            failures: 0,
        };
        course.tell(task.message);
        course
    }

    pub(super) async fn run(mut self) -> Result<CallToolResult, RequestError> {
        let mut patience = self.request.patience;
        if let Some(peer) = self.task.session.peer() {
            // The answer that made the task was a sign of life.
            patience = patience.start(&peer.life).after_sign(&peer.life);
        }
        loop {
            let session = self.task.session.clone();
            let peer = peer_of(&session)?;
            let wait = patience.start(&peer.life);
            let wake = tokio::select! {
                biased;
                wake = self.next(&session) => wake?,
                expired = wait.run_out(&peer.life) => return Err(self.given_up(expired)),
            };
            patience = wait.after_sign(&peer.life);
            match wake {
                Wake::Alive => {}
                Wake::Done(result) => return Ok(result),
                Wake::Asked(requests) => {
                    let began = Instant::now();
                    self.answer(&session, peer, requests).await?;
                    patience = patience.without(began.elapsed());
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
            answers = rounds::answers(peer, requests) => {
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
                Ok(Wake::Alive)
            }
            Some(Ok(answer)) => self.take_state(session, answer).await,
            // Whether it still knows the task is seen when it is asked for it.
            Some(Err(RequestError::Refused(_))) if is_update => {
                self.responses = None;
                self.is_due = true;
                Ok(Wake::Alive)
            }
            Some(Err(RequestError::Refused(error))) => {
                let why = format!("the server no longer knows its task {}: {error}", self.id());
                Err(self.ended_unknown(why))
            }
            Some(Err(error)) => self.go_on_after(session, error).await,
            None => Ok(Wake::Alive),
        }
    }

    /// Gives the answers that are due, or else asks for the task when it is time; again and again
    /// if the way to the server fails.
    async fn look(&mut self, session: &Session) -> Result<Answer, RequestError> {
        if self.is_over {
            return pending().await;
        }
        loop {
            let id = self.task.id.clone();
            let inquiry = if let Some(responses) = &self.responses {
                about("tasks/update", &id).with("inputResponses", responses.clone())
            } else {
                tokio::time::sleep(self.pause()).await;
                about("tasks/get", &id)
            };
            self.is_due = false;
            match session.inquire(&inquiry).await {
                Err(error) if is_passing(&error, self.failures) => self.endure(error).await,
                outcome => {
                    (self.trouble, self.failures) = (None, 0);
                    return outcome;
                }
            }
        }
    }

    /// Waits a little after a failure that says nothing of the task.
    async fn endure(&mut self, error: RequestError) {
        let asked = match &error {
            RequestError::Failed(failed) => failed.retry_after,
            _ => None,
        };
        self.trouble = Some(error.to_string());
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(asked.unwrap_or(INTERVAL).clamp(SHORTEST, LONGEST)).await;
    }

    /// How long to wait before the server is asked: as long as it says, within reason, and not so
    /// long that the task is forgotten or given up meanwhile.
    fn pause(&self) -> Duration {
        if self.is_due {
            return Duration::ZERO;
        }
        let mut pause = self.interval.unwrap_or(INTERVAL).min(LONGEST);
        for bound in [self.request.patience.idle(), self.kept_for] {
            pause = pause.min(bound.map_or(LONGEST, |bound| bound / 2));
        }
        pause.max(SHORTEST).mul_f64(1.0 + SPREAD * fastrand::f64())
    }

    /// Goes on with the session that follows one that was lost.
    async fn go_on_after(
        &mut self,
        lost: &Session,
        error: RequestError,
    ) -> Result<Wake, RequestError> {
        let end = match error {
            RequestError::Lost { end, .. } => end,
            RequestError::NeedsLogin(login) => SessionEnd::NeedsLogin(login),
            error => return Err(known_to_the_server(error)),
        };
        let until = Instant::now() + Deadlines::LONGEST;
        let next = self.request.errand.successor(lost, until).await;
        let next = next.filter(|next| is_modern(next) == self.is_modern());
        let Some(next) = next else {
            let id = self.id();
            let why = format!("{end}, and its task {id} could not be asked for again");
            return Err(self.ended_unknown(why));
        };
        self.task.session = next;
        self.fetch = None;
        (self.is_over, self.is_due) = (false, true);
        Ok(Wake::Alive)
    }

    /// Tells whoever wants to know what the server says of the task.
    fn tell(&mut self, message: Option<String>) {
        if let (Some(listener), Some(message)) = (&self.request.progress, message) {
            let message = self.redacted(&message);
            self.notes.tell(listener, message);
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
        self.task.may_run = false;
        if let Some(peer) = self.task.session.peer() {
            peer.context.redactor.redact_error(&mut error);
        }
        RequestError::Refused(error)
    }

    /// Nobody knows any more what became of it, and nobody can be told to stop.
    fn ended_unknown(&mut self, why: String) -> RequestError {
        self.task.may_run = false;
        RequestError::Failed(Failed::unknown(why))
    }

    fn given_up(&self, Expired { after, idle }: Expired) -> RequestError {
        match &self.trouble {
            Some(trouble) => RequestError::Failed(Failed::unknown(format!(
                "its task {} could not be asked for: {trouble}",
                self.id()
            ))),
            None => RequestError::TimedOut {
                after,
                idle,
                delivery: Delivery::Unknown,
                misaddressed: false,
            },
        }
    }
}

fn about<'a>(method: &'static str, id: &'a str) -> Inquiry<'a> {
    // The time of the task as a whole is kept elsewhere.
    Inquiry::new(method, Patience::within(Deadlines::LONGEST)).about("taskId", id)
}

/// The failure of a request that may succeed the next time, on the same session, after so many
/// that did not.
fn is_passing(error: &RequestError, failures: u32) -> bool {
    match error {
        RequestError::Refused(error) => error.code == ErrorObject::INTERNAL && failures < MISHAPS,
        RequestError::Failed(_) | RequestError::Congested { .. } | RequestError::NoRoom { .. } => {
            true
        }
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
    peer.ok_or_else(|| malformed("a server in this process has no tasks"))
}
