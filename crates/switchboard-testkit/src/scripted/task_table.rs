//! The state machine of MCP tasks in both eras. It sends no messages.
//!
//! Invariant: a task in a terminal state never changes.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::script::TaskOptions;

/// The key of the only input request that a task can have.
const QUESTION: &str = "question-1";
const INTERNAL_ERROR: i64 = -32603;

/// The tasks of a server, kept across connections and restarts.
#[derive(Debug, Default)]
pub(super) struct TaskTable(Mutex<TaskTableState>);

#[derive(Debug, Default)]
struct TaskTableState {
    tasks: Vec<Task>,
    last_number: u64,
    /// The time at which the first task was created. The timestamps of all tasks are computed
    /// relative to this time.
    first_created: Option<Instant>,
}

/// What a tool call asks a task to do.
#[derive(Debug, Clone)]
pub(super) struct TaskSpec {
    pub(super) topic: String,
    /// Number of steps, at least one.
    pub(super) steps: u64,
    /// If true, the task requests input when half of its steps are completed.
    pub(super) requests_input: bool,
    /// If true, the task ends with an error.
    pub(super) fails: bool,
    pub(super) ttl_ms: Option<u64>,
}

#[derive(Debug)]
struct Task {
    id: String,
    spec: TaskSpec,
    options: TaskOptions,
    /// Number of completed steps.
    done: u64,
    status: Status,
    /// The client's answer to the input request of the task.
    answer: Option<Value>,
    created: Instant,
    updated: Instant,
    /// The time up to which elapsed time has been converted into steps.
    unapplied_since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// The state of a task, for a client that waits for its result.
#[derive(Debug)]
pub(super) enum TaskProgress {
    /// The task is working; its next step takes this long.
    Working(Duration),
    /// The task waits for the answer to an `elicitation/create` with these parameters.
    InputRequired(Value),
    /// The task ended with this tool result.
    Result(Value),
    /// The task failed or was cancelled, with this JSON-RPC error.
    Error(Value),
}

/// In which JSON format a task is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskFormat {
    Legacy,
    Modern,
    /// Like `Modern`, with the result, the error or the input request of the task.
    ModernDetailed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl TaskTable {
    fn table(&self) -> MutexGuard<'_, TaskTableState> {
        let mut table = self.0.lock().expect("the lock is not poisoned");
        table.remove_expired();
        table
    }

    /// Creates a task and returns its id.
    pub(super) fn create(&self, spec: TaskSpec, options: &TaskOptions) -> String {
        let now = Instant::now();
        let mut table = self.table();
        table.first_created.get_or_insert(now);
        table.last_number += 1;
        let id = format!("task-{}", table.last_number);
        table.tasks.push(Task {
            id: id.clone(),
            spec,
            options: options.clone(),
            done: 0,
            status: Status::Working,
            answer: None,
            created: now,
            updated: now,
            unapplied_since: now,
        });
        id
    }

    /// The task as JSON; `None` if the id is unknown or the task has expired.
    pub(super) fn to_json(&self, id: &str, format: TaskFormat) -> Option<Value> {
        let mut table = self.table();
        let first_created = table.first_created?;
        let task = table.find(id)?;
        task.apply_elapsed();
        Some(task.to_json(format, first_created))
    }

    /// All tasks as legacy JSON, oldest first.
    pub(super) fn list_json(&self) -> Vec<Value> {
        let mut table = self.table();
        let Some(first_created) = table.first_created else {
            return Vec::new();
        };
        let tasks = table.tasks.iter_mut();
        tasks
            .map(|task| {
                task.apply_elapsed();
                task.to_json(TaskFormat::Legacy, first_created)
            })
            .collect()
    }

    /// Advances a task by one step, unless tasks advance by time.
    pub(super) fn poll(&self, id: &str) {
        if let Some(task) = self
            .table()
            .find(id)
            .filter(|task| !task.options.advance_by_time)
        {
            task.step();
        }
    }

    pub(super) fn progress(&self, id: &str) -> Option<TaskProgress> {
        let mut table = self.table();
        let task = table.find(id)?;
        task.apply_elapsed();
        Some(task.progress())
    }

    /// Answers the input request of a task; an unexpected answer is ignored. Returns whether the
    /// task exists.
    pub(super) fn answer_input(&self, id: &str, key: &str, answer: &Value) -> bool {
        let mut table = self.table();
        let Some(task) = table.find(id) else {
            return false;
        };
        if task.status == Status::InputRequired && key == QUESTION {
            task.answer = Some(answer.clone());
            task.unapplied_since = Instant::now();
            task.set_status(Status::Working);
        }
        true
    }

    /// Cancels a task. Returns true if the call cancelled the task, false if the task had already
    /// ended, and `None` if the id is unknown.
    pub(super) fn cancel(&self, id: &str) -> Option<bool> {
        let mut table = self.table();
        let task = table.find(id)?;
        task.apply_elapsed();
        let was_open = !task.status.is_terminal();
        if was_open {
            task.set_status(Status::Cancelled);
        }
        Some(was_open)
    }
}

/// The key of the only input request that a task can have.
pub(super) fn question_key() -> &'static str {
    QUESTION
}

impl TaskTableState {
    fn find(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.id == id)
    }

    fn remove_expired(&mut self) {
        self.tasks.retain(|task| {
            let ttl = task.spec.ttl_ms.map(Duration::from_millis);
            ttl.is_none_or(|ttl| task.created.elapsed() < ttl)
        });
    }
}

impl Task {
    fn set_status(&mut self, status: Status) {
        self.status = status;
        self.updated = Instant::now();
    }

    fn step_time(&self) -> Duration {
        Duration::from_millis(self.options.poll_ms.unwrap_or(1).max(1))
    }

    /// Converts the time since `unapplied_since` into steps, if tasks advance by time.
    fn apply_elapsed(&mut self) {
        let step_time = self.step_time();
        while self.options.advance_by_time
            && self.status == Status::Working
            && self.unapplied_since.elapsed() >= step_time
        {
            self.unapplied_since += step_time;
            self.step();
        }
    }

    fn step(&mut self) {
        if self.status != Status::Working {
            return;
        }
        self.done += 1;
        let is_half_done = self.done * 2 >= self.spec.steps;
        let status = if self.spec.requests_input && self.answer.is_none() && is_half_done {
            Status::InputRequired
        } else if self.done < self.spec.steps {
            Status::Working
        } else if self.spec.fails {
            Status::Failed
        } else {
            Status::Completed
        };
        self.set_status(status);
    }

    fn progress(&self) -> TaskProgress {
        match self.status {
            Status::Working => TaskProgress::Working(self.step_time()),
            Status::InputRequired => TaskProgress::InputRequired(question(&self.spec)),
            Status::Completed => TaskProgress::Result(self.result()),
            Status::Failed => TaskProgress::Error(failure("the research failed")),
            Status::Cancelled => TaskProgress::Error(failure("the task was cancelled")),
        }
    }

    fn result(&self) -> Value {
        let TaskSpec { topic, steps, .. } = &self.spec;
        let mut text = format!("research on {topic} in {steps} steps");
        if let Some(answer) = &self.answer {
            let content = answer.get("content").or(answer.get("action"));
            let _ = write!(text, ", answered {}", content.unwrap_or(answer));
        }
        json!({"content": [{"type": "text", "text": text}]})
    }

    fn to_json(&self, format: TaskFormat, first_created: Instant) -> Value {
        let (ttl, poll) = match format {
            TaskFormat::Legacy => ("ttl", "pollInterval"),
            TaskFormat::Modern | TaskFormat::ModernDetailed => ("ttlMs", "pollIntervalMs"),
        };
        let message = format!("step {} of {}", self.done, self.spec.steps);
        let mut json = Map::new();
        let mut put = |key: &str, value: Value| _ = json.insert(key.to_owned(), value);
        put("taskId", json!(self.id));
        put("status", json!(self.status.name()));
        put("statusMessage", json!(message));
        put("createdAt", json!(date(self.created - first_created)));
        put("lastUpdatedAt", json!(date(self.updated - first_created)));
        put(ttl, json!(self.spec.ttl_ms));
        if let Some(interval) = self.options.poll_ms {
            put(poll, json!(interval));
        }
        if format == TaskFormat::ModernDetailed {
            match self.progress() {
                TaskProgress::InputRequired(params) => {
                    let request = json!({"method": "elicitation/create", "params": params});
                    put("inputRequests", json!({QUESTION: request}));
                }
                TaskProgress::Result(result) => put("result", result),
                TaskProgress::Error(error) if self.status == Status::Failed => put("error", error),
                TaskProgress::Error(_) | TaskProgress::Working(_) => {}
            }
        }
        Value::Object(json)
    }
}

fn failure(message: &str) -> Value {
    json!({"code": INTERNAL_ERROR, "message": message})
}

/// Returns the parameters of the `elicitation/create` by which a task requests input.
fn question(spec: &TaskSpec) -> Value {
    json!({
        "mode": "form",
        "message": format!("How deep shall the research on {} go?", spec.topic),
        "requestedSchema": {
            "type": "object",
            "properties": {"depth": {"type": "string", "enum": ["short", "long"]}},
            "required": ["depth"],
        },
    })
}

/// Formats a time relative to the creation of the first task as a timestamp. The first task of
/// every server appears to be created at midnight, so tests can predict the timestamps.
fn date(after: Duration) -> String {
    let seconds = after.as_secs();
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("2026-07-28T{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}
