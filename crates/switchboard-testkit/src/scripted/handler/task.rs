//! Sends the result of a task when the task has ended, and notifies clients when its state changes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::task_table::{TaskFormat, TaskProgress, question_key};
use super::{Handler, StepsStopped};
use crate::script::ServerRequest;

const RELATED: &str = "io.modelcontextprotocol/related-task";

impl Handler {
    /// Waits until a task has ended, then sends its result or error. If the task requests input on
    /// the way, sends that request to the client and waits for the answer.
    pub(super) async fn await_task(&mut self, id: &str) -> Result<(), StepsStopped> {
        let state = Arc::clone(&self.state);
        let tasks = state.platform.catalog().tasks();
        let related = json!({RELATED: {"taskId": id}});
        loop {
            match tasks.progress(id) {
                Some(TaskProgress::Working(pause)) => {
                    self.wait_unless_cancelled(tokio::time::sleep(pause))
                        .await?;
                    tasks.poll(id);
                }
                Some(TaskProgress::InputRequired(params)) => {
                    self.send_request(&question(params, &related)).await?;
                    let answer = self.last_response.take().unwrap_or_default();
                    let answer = answer.get("result").unwrap_or(&Value::Null);
                    tasks.answer_input(id, question_key(), answer);
                }
                Some(TaskProgress::Result(mut result)) => {
                    add_meta(&mut result, &related);
                    return self.reply(&result).await;
                }
                Some(TaskProgress::Error(error)) => {
                    let code = error.get("code").and_then(Value::as_i64);
                    let message = error.get("message").and_then(Value::as_str);
                    let (code, message) = (code.unwrap_or_default(), message.unwrap_or_default());
                    return self.reply_error(code, message, None).await;
                }
                None => return self.reply_error(-32602, "the task has expired", None).await,
            }
        }
    }

    /// Spawns a tokio task that sends the status of an MCP task to the client after each step until
    /// the MCP task has ended. Does nothing unless tasks advance by time.
    pub(super) fn spawn_task_notifications(&self, id: String, modern: bool) {
        if !self.state.script().task_options.advance_by_time {
            return;
        }
        let (method, format) = if modern {
            ("notifications/tasks", TaskFormat::ModernDetailed)
        } else {
            ("notifications/tasks/status", TaskFormat::Legacy)
        };
        let state = Arc::clone(&self.state);
        self.state.spawn(async move {
            let tasks = state.platform.catalog().tasks();
            let pause = state.script().task_options.poll_ms.unwrap_or(1).max(1);
            let mut last_sent = Value::Null;
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
                let Some(task) = tasks.to_json(&id, format) else {
                    return;
                };
                if task != last_sent && state.announce(method, Some(&task)).await.is_err() {
                    return;
                }
                let is_over = matches!(
                    tasks.progress(&id),
                    Some(TaskProgress::Result(_) | TaskProgress::Error(_)) | None
                );
                if is_over {
                    return;
                }
                last_sent = task;
            }
        });
    }
}

/// Returns the request by which a task asks a client of the legacy era for input.
fn question(mut params: Value, related: &Value) -> ServerRequest {
    add_meta(&mut params, related);
    ServerRequest {
        id: None,
        method: "elicitation/create".to_owned(),
        params: Some(params),
        wait: true,
    }
}

fn add_meta(object: &mut Value, meta: &Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert("_meta".to_owned(), meta.clone());
    }
}
