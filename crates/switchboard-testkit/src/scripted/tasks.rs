//! Calls that go on when they were answered, as the tasks of both eras. Decides; writes nothing.
//!
//! Invariant: a task that has ended changes no more, whatever is asked of it.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::script::TaskOptions;

/// Under this key a task asks its question.
const QUESTION: &str = "question-1";
const INTERNAL_ERROR: i64 = -32603;

/// The tasks of a server, over all its connections and lives.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<TaskTable>);

#[derive(Debug, Default)]
struct TaskTable {
    tasks: Vec<Task>,
    last: u64,
    /// When the first one was made.
    began: Option<Instant>,
}

/// What a task shall do.
#[derive(Debug, Clone)]
pub(super) struct TaskSpec {
    pub(super) topic: String,
    /// How many steps it takes, at least one.
    pub(super) steps: u64,
    /// Asks for input when half of the steps are done.
    pub(super) asks: bool,
    /// Ends with an error.
    pub(super) fails: bool,
    pub(super) ttl_ms: Option<u64>,
}

#[derive(Debug)]
struct Task {
    id: String,
    order: TaskSpec,
    tasking: TaskOptions,
    done: u64,
    status: Status,
    /// What was answered to its question.
    answer: Option<Value>,
    created: Instant,
    updated: Instant,
    /// From when on time counts that was not yet turned into steps.
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// Where a task is.
#[derive(Debug)]
pub(super) enum TaskProgress {
    /// It goes on in a while.
    Working(Duration),
    /// It needs an answer to this `elicitation/create`.
    Asking(Value),
    /// It has ended with this result.
    Result(Value),
    /// It has ended with this error of JSON-RPC.
    Error(Value),
}

/// How the two eras write a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskFormat {
    Legacy,
    Modern,
    /// With what came of it, or what it asks for.
    ModernWhole,
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

    fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl Tasks {
    fn known(&self) -> MutexGuard<'_, TaskTable> {
        let mut known = self.0.lock().expect("no holder panics");
        known.forget_the_expired();
        known
    }

    /// Begins a task, and says its id.
    pub(super) fn begin(&self, order: TaskSpec, tasking: &TaskOptions) -> String {
        let now = Instant::now();
        let mut known = self.known();
        known.began.get_or_insert(now);
        known.last += 1;
        let id = format!("task-{}", known.last);
        known.tasks.push(Task {
            id: id.clone(),
            order,
            tasking: tasking.clone(),
            done: 0,
            status: Status::Working,
            answer: None,
            created: now,
            updated: now,
            since: now,
        });
        id
    }

    /// What the client shall see of a task; none if there is none of that id.
    pub(super) fn show(&self, id: &str, form: TaskFormat) -> Option<Value> {
        let mut known = self.known();
        let began = known.began?;
        let task = known.find(id)?;
        task.catch_up();
        Some(task.show(form, began))
    }

    /// All of them, in the order in which they began.
    pub(super) fn show_all(&self) -> Vec<Value> {
        let mut known = self.known();
        let Some(began) = known.began else {
            return Vec::new();
        };
        let tasks = known.tasks.iter_mut();
        tasks
            .map(|task| {
                task.catch_up();
                task.show(TaskFormat::Legacy, began)
            })
            .collect()
    }

    /// Somebody asks how far it is, which lets it go on where it goes on by that.
    pub(super) fn poll(&self, id: &str) {
        if let Some(task) = self.known().find(id).filter(|task| !task.tasking.by_time) {
            task.step();
        }
    }

    pub(super) fn standing(&self, id: &str) -> Option<TaskProgress> {
        let mut known = self.known();
        let task = known.find(id)?;
        task.catch_up();
        Some(task.standing())
    }

    /// Answers the question of a task; an answer that it does not wait for changes nothing. Says whether
    /// there is such a task.
    pub(super) fn answer(&self, id: &str, key: &str, answer: &Value) -> bool {
        let mut known = self.known();
        let Some(task) = known.find(id) else {
            return false;
        };
        if task.status == Status::InputRequired && key == QUESTION {
            task.answer = Some(answer.clone());
            task.since = Instant::now();
            task.turn(Status::Working);
        }
        true
    }

    /// Ends a task that has not ended. Says whether it had not; none if there is none.
    pub(super) fn cancel(&self, id: &str) -> Option<bool> {
        let mut known = self.known();
        let task = known.find(id)?;
        task.catch_up();
        let was_open = !task.status.is_end();
        if was_open {
            task.turn(Status::Cancelled);
        }
        Some(was_open)
    }
}

/// The key under which a task asks its question.
pub(super) fn question_key() -> &'static str {
    QUESTION
}

impl TaskTable {
    fn find(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.id == id)
    }

    fn forget_the_expired(&mut self) {
        self.tasks.retain(|task| {
            let ttl = task.order.ttl_ms.map(Duration::from_millis);
            ttl.is_none_or(|ttl| task.created.elapsed() < ttl)
        });
    }
}

impl Task {
    fn turn(&mut self, status: Status) {
        self.status = status;
        self.updated = Instant::now();
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(self.tasking.poll_ms.unwrap_or(1).max(1))
    }

    /// Turns the time that went by into steps, where the task goes on by time.
    fn catch_up(&mut self) {
        let pause = self.pause();
        while self.tasking.by_time
            && self.status == Status::Working
            && self.since.elapsed() >= pause
        {
            self.since += pause;
            self.step();
        }
    }

    fn step(&mut self) {
        if self.status != Status::Working {
            return;
        }
        self.done += 1;
        let is_half_done = self.done * 2 >= self.order.steps;
        let status = if self.order.asks && self.answer.is_none() && is_half_done {
            Status::InputRequired
        } else if self.done < self.order.steps {
            Status::Working
        } else if self.order.fails {
            Status::Failed
        } else {
            Status::Completed
        };
        self.turn(status);
    }

    fn standing(&self) -> TaskProgress {
        match self.status {
            Status::Working => TaskProgress::Working(self.pause()),
            Status::InputRequired => TaskProgress::Asking(question(&self.order)),
            Status::Completed => TaskProgress::Result(self.result()),
            Status::Failed => TaskProgress::Error(failure("the research failed")),
            Status::Cancelled => TaskProgress::Error(failure("the task was cancelled")),
        }
    }

    fn result(&self) -> Value {
        let TaskSpec { topic, steps, .. } = &self.order;
        let mut text = format!("research on {topic} in {steps} steps");
        if let Some(answer) = &self.answer {
            let said = answer.get("content").or(answer.get("action"));
            let _ = write!(text, ", answered {}", said.unwrap_or(answer));
        }
        json!({"content": [{"type": "text", "text": text}]})
    }

    fn show(&self, form: TaskFormat, began: Instant) -> Value {
        let (ttl, poll) = match form {
            TaskFormat::Legacy => ("ttl", "pollInterval"),
            TaskFormat::Modern | TaskFormat::ModernWhole => ("ttlMs", "pollIntervalMs"),
        };
        let message = format!("step {} of {}", self.done, self.order.steps);
        let mut shown = Map::new();
        let mut put = |key: &str, value: Value| _ = shown.insert(key.to_owned(), value);
        put("taskId", json!(self.id));
        put("status", json!(self.status.name()));
        put("statusMessage", json!(message));
        put("createdAt", json!(date(self.created - began)));
        put("lastUpdatedAt", json!(date(self.updated - began)));
        put(ttl, json!(self.order.ttl_ms));
        if let Some(interval) = self.tasking.poll_ms {
            put(poll, json!(interval));
        }
        if form == TaskFormat::ModernWhole {
            match self.standing() {
                TaskProgress::Asking(params) => {
                    let request = json!({"method": "elicitation/create", "params": params});
                    put("inputRequests", json!({QUESTION: request}));
                }
                TaskProgress::Result(result) => put("result", result),
                TaskProgress::Error(error) if self.status == Status::Failed => put("error", error),
                TaskProgress::Error(_) | TaskProgress::Working(_) => {}
            }
        }
        Value::Object(shown)
    }
}

fn failure(message: &str) -> Value {
    json!({"code": INTERNAL_ERROR, "message": message})
}

/// The parameters of the `elicitation/create` in the middle of a task.
fn question(order: &TaskSpec) -> Value {
    json!({
        "mode": "form",
        "message": format!("How deep shall the research on {} go?", order.topic),
        "requestedSchema": {
            "type": "object",
            "properties": {"depth": {"type": "string", "enum": ["short", "long"]}},
            "required": ["depth"],
        },
    })
}

/// A date for the protocol. The first task of every server begins at midnight, so that tests know it.
fn date(after: Duration) -> String {
    let seconds = after.as_secs();
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("2026-07-28T{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}
