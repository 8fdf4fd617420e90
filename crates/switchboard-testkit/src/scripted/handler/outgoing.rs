//! Writes the responses of a handler and the other messages that it sends.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::defaults::{self, DefaultResponse, SideEffect};
use super::super::listeners::UPDATED;
use super::super::message::{Request, error_line, result_line};
use super::super::output::Chunk;
use super::super::state::SUBSCRIPTION_ID;
use super::super::{ServerExit, notification_line};
use super::{Handler, StepsStopped};
use crate::script::{Era, ListenEnding, ServerRequest};

/// Number of bytes per write of the step `stderrFlood`.
const STDERR_FLOOD_CHUNK: usize = 64 * 1024;

/// Responses.
impl Handler {
    fn id(&self) -> Result<&Value, StepsStopped> {
        let id = self.request.as_ref().map(|request| &request.id);
        id.filter(|id| !id.is_null()).ok_or_else(|| {
            self.state.script_error("no request to respond to");
            StepsStopped
        })
    }

    pub(super) async fn reply(&self, result: &Value) -> Result<(), StepsStopped> {
        self.write_line(&result_line(self.id()?, result)).await
    }

    pub(super) async fn reply_error(
        &self,
        code: i64,
        message: &str,
        data: Option<&Value>,
    ) -> Result<(), StepsStopped> {
        let line = error_line(self.id()?, code, message, data);
        self.write_line(&line).await
    }

    fn text_result(&self, text: &str) -> Value {
        let modern = self
            .request
            .as_ref()
            .is_some_and(|request| defaults::is_modern(&self.state.script(), request));
        defaults::text_result(text, modern)
    }

    pub(super) async fn reply_text(&self, text: &str) -> Result<(), StepsStopped> {
        self.reply(&self.text_result(text)).await
    }

    pub(super) async fn reply_of_size(&self, size: usize) -> Result<(), StepsStopped> {
        let shortest = result_line(self.id()?, &self.text_result("")).len();
        let Some(padding) = size.checked_sub(shortest) else {
            self.state.script_error(&format!(
                "replyOfSize: {size} is less than the minimum, {shortest}"
            ));
            return Err(StepsStopped);
        };
        self.reply_text(&"x".repeat(padding)).await
    }

    pub(super) async fn reply_default(&mut self) -> Result<(), StepsStopped> {
        let Some(request) = self.request.clone() else {
            self.state.script_error("no message to respond to");
            return Err(StepsStopped);
        };
        if request.id.is_null() {
            defaults::handle_notification(&self.state, &request);
            return Ok(());
        }
        match defaults::respond(&self.state, &request) {
            DefaultResponse::Result(result) => self.reply(&result).await,
            DefaultResponse::Error {
                code,
                message,
                data,
            } => self.reply_error(code, &message, data.as_ref()).await,
            DefaultResponse::Sleep { time, result } => {
                self.wait_unless_cancelled(tokio::time::sleep(time)).await?;
                self.reply(&result).await
            }
            DefaultResponse::Listen { filter } => self.listen(&request.id, filter).await,
            DefaultResponse::Subscribe { uri } => {
                self.state.subscribe(&self.scope, &uri);
                self.reply(&json!({})).await
            }
            DefaultResponse::Unsubscribe { uri } => {
                self.state.unsubscribe(&self.scope, &uri);
                self.reply(&json!({})).await
            }
            DefaultResponse::AwaitTask { id } => self.await_task(&id).await,
            DefaultResponse::WithSideEffect { effect, result } => {
                self.apply_effect(effect, &result).await
            }
            DefaultResponse::Silence => self.wait_unless_cancelled(std::future::pending()).await,
            DefaultResponse::Exit(code) => self.exit(ServerExit::Exited(code)),
        }
    }

    /// Acknowledges a `subscriptions/listen` request and waits until the request ends.
    async fn listen(&mut self, id: &Value, filter: Value) -> Result<(), StepsStopped> {
        let meta = json!({SUBSCRIPTION_ID: id});
        let params = json!({"_meta": meta, "notifications": filter});
        let line = notification_line("notifications/subscriptions/acknowledged", Some(&params));
        let end = {
            let _ack_guard = self.state.ack_lock.lock().await;
            self.write_line(&line).await?;
            self.state.listen(id, filter, self.output.clone())
        };
        let mut ending = None;
        self.wait_unless_cancelled(async { ending = end.await.ok() })
            .await?;
        match ending {
            Some(ListenEnding::Result) => {
                self.reply(&json!({"_meta": meta, "resultType": "complete"}))
                    .await
            }
            Some(ListenEnding::Cancelled) => {
                let params = json!({"requestId": id, "reason": "ended by the server"});
                let line = notification_line("notifications/cancelled", Some(&params));
                self.write_line(&line).await
            }
            // Send nothing. Over HTTP, the stream of the request ends with this handler.
            Some(ListenEnding::Dropped) | None => Ok(()),
        }
    }

    /// Applies the side effect of a tool call, then sends the result.
    async fn apply_effect(
        &mut self,
        effect: SideEffect,
        result: &Value,
    ) -> Result<(), StepsStopped> {
        match effect {
            SideEffect::Announce { method, params } => {
                self.state.announce(method, params.as_ref()).await?;
            }
            SideEffect::NotifyTask { id, modern } => self.spawn_task_notifications(id, modern),
            SideEffect::Flood(flood) => {
                let state = Arc::clone(&self.state);
                self.state.spawn(async move {
                    let _ = state.flood(&flood).await;
                });
            }
        }
        self.reply(result).await
    }
}

/// Messages other than responses.
impl Handler {
    pub(super) async fn publish(
        &self,
        method: &str,
        params: Option<&Value>,
    ) -> Result<(), StepsStopped> {
        if method == UPDATED {
            return self.state.announce(method, params).await;
        }
        if self.state.publish(method, params).await? || self.state.script().era == Era::Modern {
            return Ok(());
        }
        let line = notification_line(method, params);
        match &self.output {
            Some(output) => output.put_notification(Chunk::Line(line)).await,
            None => self.state.write_line(&line).await,
        }
    }

    pub(super) async fn report_progress(
        &self,
        progress: &Value,
        total: Option<&Value>,
        message: Option<&str>,
    ) -> Result<(), StepsStopped> {
        let Some(token) = self.request.as_ref().and_then(Request::progress_token) else {
            return Ok(());
        };
        let mut params = Map::new();
        params.insert("progressToken".to_owned(), token.clone());
        params.insert("progress".to_owned(), progress.clone());
        params.extend(total.map(|total| ("total".to_owned(), total.clone())));
        params.extend(message.map(|message| ("message".to_owned(), json!(message))));
        let line = notification_line("notifications/progress", Some(&Value::Object(params)));
        self.write_line(&line).await
    }

    pub(super) async fn send_request(
        &mut self,
        request: &ServerRequest,
    ) -> Result<(), StepsStopped> {
        let id = request
            .id
            .clone()
            .unwrap_or_else(|| self.state.next_request_id());
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": request.method});
        if let (Some(message), Some(params)) = (message.as_object_mut(), &request.params) {
            message.insert("params".to_owned(), params.clone());
        }
        let response = request.wait.then(|| self.state.await_response(&id));
        self.write_line(&message.to_string()).await?;
        if let Some(response) = response {
            let mut received = None;
            self.wait_unless_cancelled(async { received = response.await.ok() })
                .await?;
            self.last_response = received;
        }
        Ok(())
    }

    pub(super) async fn print_env(&self) -> Result<(), StepsStopped> {
        for (name, value) in self.state.platform.env_vars() {
            self.write_line(&format!("{name}={value}")).await?;
        }
        Ok(())
    }

    pub(super) async fn flood_stderr(&mut self, bytes: Option<u64>) -> Result<(), StepsStopped> {
        let line = format!("{}\n", "scripted flood ".repeat(8));
        let chunk: Vec<u8> = line.bytes().cycle().take(STDERR_FLOOD_CHUNK).collect();
        let mut left = bytes.unwrap_or(u64::MAX);
        while left > 0 {
            let now = left.min(STDERR_FLOOD_CHUNK as u64);
            let length = usize::try_from(now).unwrap_or(chunk.len());
            let part = chunk.get(..length).unwrap_or(&chunk);
            self.state
                .platform
                .stderr(part)
                .await
                .map_err(|_| StepsStopped)?;
            if bytes.is_some() {
                left -= now;
            }
        }
        Ok(())
    }
}
