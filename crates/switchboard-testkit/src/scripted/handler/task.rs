//! Waiting for the end of a task, and telling of its way.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::tasks::{TaskFormat, TaskProgress, question_key};
use super::{Handler, StepsStopped};
use crate::script::ServerRequest;

const RELATED: &str = "io.modelcontextprotocol/related-task";

impl Handler {
    /// Answers with what came of a task, once it has ended. What it asks for is asked for here.
    pub(super) async fn await_task(&mut self, id: &str) -> Result<(), StepsStopped> {
        let shared = Arc::clone(&self.shared);
        let tasks = shared.host.stock().tasks();
        let related = json!({RELATED: {"taskId": id}});
        loop {
            match tasks.standing(id) {
                Some(TaskProgress::Working(pause)) => {
                    self.pause(tokio::time::sleep(pause)).await?;
                    tasks.poll(id);
                }
                Some(TaskProgress::Asking(params)) => {
                    self.ask(&question(params, &related)).await?;
                    let answer = self.answer.take().unwrap_or_default();
                    let answer = answer.get("result").unwrap_or(&Value::Null);
                    tasks.answer(id, question_key(), answer);
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

    /// Tells whoever wants to know how far a task is, as time goes by, until it has ended.
    pub(super) fn follow_task(&self, id: String, modern: bool) {
        if !self.shared.script().tasking.by_time {
            return;
        }
        let (method, form) = if modern {
            ("notifications/tasks", TaskFormat::ModernWhole)
        } else {
            ("notifications/tasks/status", TaskFormat::Legacy)
        };
        let shared = Arc::clone(&self.shared);
        self.shared.spawn(async move {
            let tasks = shared.host.stock().tasks();
            let pause = shared.script().tasking.poll_ms.unwrap_or(1).max(1);
            let mut told = Value::Null;
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
                let Some(task) = tasks.show(&id, form) else {
                    return;
                };
                if task != told && shared.announce(method, Some(&task)).await.is_err() {
                    return;
                }
                let is_over = matches!(
                    tasks.standing(&id),
                    Some(TaskProgress::Result(_) | TaskProgress::Error(_)) | None
                );
                if is_over {
                    return;
                }
                told = task;
            }
        });
    }
}

/// The request by which a task asks a legacy client.
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
