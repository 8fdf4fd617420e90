//! Interprets the responses to `tasks/get` and `tasks/result`.

use super::{MAX_KEY_BYTES, TaskPoller, Wake, is_retryable, peer_of, task_query};
use crate::session::input_required::invalid_response;
use crate::session::{RequestError, Session, decode_response};
use switchboard_wire::decode;
use switchboard_wire::decode::{IncompleteResult, InputRequest, TaskStatus};
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult};
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
        let decode = move |response: &RawResult| decode::task(response, max_blocks);
        let decoded = decode_response(response, decode).await?;
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
            TaskStatus::Cancelled => Err(self.cancelled_by_server(task.status_message.as_deref())),
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

    fn cancelled_by_server(&mut self, reason: Option<&str>) -> RequestError {
        let reason = reason.map(|reason| format!(": {}", self.redacted(reason)));
        let reason = reason.unwrap_or_default();
        let text = format!("the server cancelled the task{reason}");
        self.failed(ErrorObject::new(ErrorObject::INTERNAL, text))
    }

    /// Keeps the input requests that were not answered before. Fails if a key is too long, or if
    /// more than `limit` polls brought new input requests.
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

    /// Sends `tasks/result` unless that request is already in flight. The server responds to it
    /// when the task has ended.
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
                let decode = move |result: &RawResult| decode::call_tool_result(result, max_blocks);
                let decoded = decode_response(result, decode).await?;
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
            // Either the tool failed, or the server rejected `tasks/result` itself. The next poll
            // shows whether the task has ended.
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
