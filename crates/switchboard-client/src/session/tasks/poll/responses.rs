//! Interprets the responses to `tasks/get` and `tasks/result`.

use super::{MAX_KEY_BYTES, TaskPoller, Wake, is_retryable, peer_of, task_query};
use crate::session::input_required::invalid_response;
use crate::session::{RequestError, Session, run_blocking};
use switchboard_wire::decode;
use switchboard_wire::decode::{IncompleteResult, InputRequest, TaskStatus};
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult};
use switchboard_wire::limits::LARGE_MESSAGE_BYTES;
use switchboard_wire::mcp::ErrorObject;

impl TaskPoller<'_> {
    /// Handles a response to `tasks/get`.
    pub(super) async fn on_state(
        &mut self,
        session: &Session,
        response: RawResult,
    ) -> Result<Wake, RequestError> {
        let limits = &peer_of(session)?.context.limits;
        let max_blocks = limits.content_blocks;
        let decoded = if response.text.len() > LARGE_MESSAGE_BYTES {
            Box::pin(run_blocking(move || decode::task(&response, max_blocks))).await?
        } else {
            decode::task(&response, max_blocks)
        };
        let task = decoded.map_err(RequestError::InvalidResponse)?;
        if task.id != self.task.id {
            return Err(invalid_response("it belongs to another task"));
        }
        self.interval = task.poll_interval;
        self.ttl = task.ttl.or(self.ttl);
        match task.status {
            TaskStatus::Working => {
                self.report_status(task.status_message);
                Ok(Wake::StillWorking)
            }
            TaskStatus::InputRequired(requests) if self.is_modern() => {
                self.report_status(task.status_message);
                self.on_input_required(requests, limits.input_requests)
            }
            TaskStatus::InputRequired(_) => {
                self.report_status(task.status_message);
                self.request_result(session);
                Ok(Wake::StillWorking)
            }
            TaskStatus::Cancelled => {
                let reason = task
                    .status_message
                    .map(|message| format!(": {}", self.redacted(&message)));
                let reason = reason.unwrap_or_default();
                let text = format!("the server cancelled the task{reason}");
                Err(self.failed(ErrorObject::new(ErrorObject::INTERNAL, text)))
            }
            TaskStatus::Completed(Some(result)) if self.is_modern() => {
                self.task.maybe_running = false;
                Ok(Wake::Done(*result))
            }
            TaskStatus::Completed(None) if self.is_modern() => {
                self.task.maybe_running = false;
                Err(invalid_response("its task is completed but has no result"))
            }
            TaskStatus::Failed(error) if self.is_modern() => {
                let text = task
                    .status_message
                    .unwrap_or_else(|| "the task failed".to_owned());
                let error = error.unwrap_or_else(|| ErrorObject::new(ErrorObject::INTERNAL, text));
                Err(self.failed(error))
            }
            TaskStatus::Completed(_) | TaskStatus::Failed(_) => {
                self.task.maybe_running = false;
                self.result_only = true;
                self.request_result(session);
                Ok(Wake::StillWorking)
            }
        }
    }

    /// Selects the input requests that were not answered before.
    fn on_input_required(
        &mut self,
        mut requests: Vec<InputRequest>,
        limit: usize,
    ) -> Result<Wake, RequestError> {
        requests.retain(|request| !self.answered.contains(&request.key));
        if requests.is_empty() {
            return Ok(Wake::StillWorking);
        }
        if requests
            .iter()
            .any(|request| request.key.len() > MAX_KEY_BYTES)
        {
            let why = format!("a key of `inputRequests` is longer than {MAX_KEY_BYTES} bytes");
            return Err(invalid_response(why));
        }
        self.rounds += 1;
        if self.rounds > limit {
            return Err(RequestError::InvalidResponse(
                InvalidMessage::TooManyInputRequests { limit },
            ));
        }
        Ok(Wake::InputRequired(requests))
    }

    /// Sends `tasks/result` unless it is open. The server responds when the task has ended.
    fn request_result(&mut self, session: &Session) {
        let (session, id) = (session.clone(), self.task.id.clone());
        self.result_request.get_or_insert_with(|| {
            Box::pin(async move { session.query(&task_query("tasks/result", &id)).await })
        });
    }

    /// Handles the response to `tasks/result`.
    pub(super) async fn on_result(
        &mut self,
        session: &Session,
        result: Result<RawResult, RequestError>,
    ) -> Result<Wake, RequestError> {
        match result {
            Ok(result) => {
                self.task.maybe_running = false;
                let max_blocks = peer_of(session)?.context.limits.content_blocks;
                let decoded = if result.text.len() > LARGE_MESSAGE_BYTES {
                    let decode = move || decode::call_tool_result(&result, max_blocks);
                    Box::pin(run_blocking(decode)).await?
                } else {
                    decode::call_tool_result(&result, max_blocks)
                };
                match decoded {
                    Ok(result) => Ok(Wake::Done(result)),
                    Err(IncompleteResult::Invalid(problem)) => {
                        Err(RequestError::InvalidResponse(problem))
                    }
                    Err(_) => Err(invalid_response("the result of its task is incomplete")),
                }
            }
            Err(RequestError::ErrorResponse(error)) if self.result_only || self.result_failed => {
                Err(self.failed(error))
            }
            // An error of the tool or of the request itself: the next poll decides.
            Err(RequestError::ErrorResponse(_)) => {
                (self.result_failed, self.poll_now) = (true, true);
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
