//! What the answers of a server say of a task, and what follows from them.

use super::{KEY_BYTES, TaskPoller, Wake, about, is_retryable, peer_of};
use crate::limits::LARGE;
use crate::mcp::ErrorObject;
use crate::session::input_required::invalid_response;
use crate::session::{RequestError, Session, run_blocking};
use crate::wire::decode::{self, InputRequest, NoResult, TaskStatus};
use crate::wire::{Answer, Problem};

impl TaskPoller<'_> {
    /// Takes what the server says of the task.
    pub(super) async fn take_state(
        &mut self,
        session: &Session,
        answer: Answer,
    ) -> Result<Wake, RequestError> {
        let limits = &peer_of(session)?.context.limits;
        let most = limits.content_blocks;
        let read = if answer.text.len() > LARGE {
            Box::pin(run_blocking(move || decode::task(&answer, most))).await?
        } else {
            decode::task(&answer, most)
        };
        let task = read.map_err(RequestError::InvalidResponse)?;
        if task.id != self.task.id {
            return Err(invalid_response("it is about another task"));
        }
        self.interval = task.interval;
        self.ttl = task.kept_for.or(self.ttl);
        match task.status {
            TaskStatus::Working => {
                self.tell(task.message);
                Ok(Wake::StillWorking)
            }
            TaskStatus::InputRequired(requests) if self.is_modern() => {
                self.tell(task.message);
                self.take_questions(requests, limits.input_rounds)
            }
            TaskStatus::InputRequired(_) => {
                self.tell(task.message);
                self.fetch(session);
                Ok(Wake::StillWorking)
            }
            TaskStatus::Cancelled => {
                let said = task
                    .message
                    .map(|said| format!(": {}", self.redacted(&said)));
                let said = said.unwrap_or_default();
                let text = format!("the server cancelled the task{said}");
                Err(self.failed(ErrorObject::new(ErrorObject::INTERNAL, text)))
            }
            TaskStatus::Completed(Some(result)) if self.is_modern() => {
                self.task.maybe_running = false;
                Ok(Wake::Done(*result))
            }
            TaskStatus::Completed(None) if self.is_modern() => {
                self.task.maybe_running = false;
                Err(invalid_response("its task is completed, and has no result"))
            }
            TaskStatus::Failed(error) if self.is_modern() => {
                let text = task.message.unwrap_or_else(|| "the task failed".to_owned());
                let error = error.unwrap_or_else(|| ErrorObject::new(ErrorObject::INTERNAL, text));
                Err(self.failed(error))
            }
            TaskStatus::Completed(_) | TaskStatus::Failed(_) => {
                self.task.maybe_running = false;
                self.result_only = true;
                self.fetch(session);
                Ok(Wake::StillWorking)
            }
        }
    }

    /// Those questions that were not asked before.
    fn take_questions(
        &mut self,
        mut requests: Vec<InputRequest>,
        limit: usize,
    ) -> Result<Wake, RequestError> {
        requests.retain(|request| !self.asked.contains(&request.key));
        if requests.is_empty() {
            return Ok(Wake::StillWorking);
        }
        if requests.iter().any(|request| request.key.len() > KEY_BYTES) {
            let why = format!("a name in `inputRequests` is longer than {KEY_BYTES} bytes");
            return Err(invalid_response(why));
        }
        self.rounds += 1;
        if self.rounds > limit {
            return Err(RequestError::InvalidResponse(Problem::TooManyRounds {
                limit,
            }));
        }
        Ok(Wake::Asked(requests))
    }

    /// Asks for the result, which comes when the task is over, unless that was done before.
    fn fetch(&mut self, session: &Session) {
        let (session, id) = (session.clone(), self.task.id.clone());
        self.fetch.get_or_insert_with(|| {
            Box::pin(async move { session.query(&about("tasks/result", &id)).await })
        });
    }

    /// Takes the result, or what came instead.
    pub(super) async fn take_result(
        &mut self,
        session: &Session,
        answer: Result<Answer, RequestError>,
    ) -> Result<Wake, RequestError> {
        match answer {
            Ok(answer) => {
                self.task.maybe_running = false;
                let most = peer_of(session)?.context.limits.content_blocks;
                let read = if answer.text.len() > LARGE {
                    Box::pin(run_blocking(move || {
                        decode::call_tool_result(&answer, most)
                    }))
                    .await?
                } else {
                    decode::call_tool_result(&answer, most)
                };
                match read {
                    Ok(result) => Ok(Wake::Done(result)),
                    Err(NoResult::Unusable(problem)) => Err(RequestError::InvalidResponse(problem)),
                    Err(_) => Err(invalid_response("the result of its task is not complete")),
                }
            }
            Err(RequestError::ErrorResponse(error)) if self.result_only || self.was_refused => {
                Err(self.failed(error))
            }
            // The error of the tool, or that of asking? The state of the task tells.
            Err(RequestError::ErrorResponse(_)) => {
                (self.was_refused, self.poll_now) = (true, true);
                Ok(Wake::StillWorking)
            }
            Err(error) if is_retryable(&error, self.failures) => {
                self.result_only = false;
                self.wait_after_error(error).await;
                Ok(Wake::StillWorking)
            }
            Err(error) => self.continue_on_next_session(session, error).await,
        }
    }
}
