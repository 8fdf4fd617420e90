//! Default behaviour of the tool `research`, which can run as a task, and of the `tasks/…` methods
//! of both eras.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::task_table::{TaskFormat, TaskSpec};
use super::{DefaultResponse, INVALID_PARAMS, Listing, METHOD_NOT_FOUND, SideEffect};
use super::{META_CAPABILITIES, Request, ServerState, complete, insert, text_result};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const MISSING_CAPABILITY: i64 = -32021;
/// Number of steps of a task if the tool call has no argument `steps`.
const DEFAULT_STEPS: u64 = 3;

/// Returns whether the capabilities of the server declare tasks, in the format of the given era.
fn has_tasks(state: &ServerState, modern: bool) -> bool {
    let script = state.script();
    let capabilities = &script.capabilities;
    if modern {
        let extensions = capabilities.get("extensions");
        return extensions.is_some_and(|extensions| extensions.get(EXTENSION).is_some());
    }
    capabilities.get("tasks").is_some()
}

/// Returns whether this request declares the client's support for the tasks extension.
pub(super) fn declares_tasks(request: &Request) -> bool {
    let capabilities = request.meta(META_CAPABILITIES);
    let extensions = capabilities.and_then(|capabilities| capabilities.get("extensions"));
    extensions.is_some_and(|extensions| extensions.get(EXTENSION).is_some())
}

pub(super) fn reject_undeclared() -> DefaultResponse {
    DefaultResponse::Error {
        code: MISSING_CAPABILITY,
        message: format!("the client lacks the extension {EXTENSION}"),
        data: Some(json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}})),
    }
}

/// Runs the tool `research`: as a task if client and server support tasks, otherwise as an ordinary
/// tool call whose response is delayed. Rejects a call in a form that the tool's `taskSupport` or
/// the capabilities do not permit.
pub(super) fn research(state: &ServerState, request: &Request, modern: bool) -> DefaultResponse {
    let script = state.script();
    let task_params = request.params.get("task");
    let support = task_support(state);
    let is_task = has_tasks(state, modern)
        && support != "forbidden"
        && (if modern {
            declares_tasks(request)
        } else {
            task_params.is_some()
        });
    if !is_task && support == "required" {
        return if modern {
            reject_undeclared()
        } else {
            DefaultResponse::error(METHOD_NOT_FOUND, "research must be called as a task")
        };
    }
    if !is_task && !modern && task_params.is_some() {
        return DefaultResponse::error(METHOD_NOT_FOUND, "research cannot be called as a task");
    }
    let flag = |name: &str| request.argument(name) == Some(&json!(true));
    let topic = request.argument("topic").and_then(Value::as_str);
    let steps = request.argument("steps").and_then(Value::as_u64);
    let requested_ttl = task_params
        .and_then(|task| task.get("ttl"))
        .and_then(Value::as_u64);
    let spec = TaskSpec {
        topic: topic.unwrap_or("anything").to_owned(),
        steps: steps.unwrap_or(DEFAULT_STEPS).max(1),
        requests_input: flag("ask"),
        fails: flag("fail"),
        ttl_ms: requested_ttl.or(script.task_options.ttl_ms),
    };
    state.platform.count_key("ran research");
    if !is_task {
        let pause = Duration::from_millis(script.task_options.poll_ms.unwrap_or_default());
        let TaskSpec { topic, steps, .. } = &spec;
        return DefaultResponse::Sleep {
            time: pause.saturating_mul(u32::try_from(*steps).unwrap_or(u32::MAX)),
            result: text_result(&format!("research on {topic} in {steps} steps"), modern),
        };
    }
    let tasks = state.platform.catalog().tasks();
    let id = tasks.create(spec, &script.task_options);
    let format = if modern {
        TaskFormat::Modern
    } else {
        TaskFormat::Legacy
    };
    let mut result = tasks.to_json(&id, format).unwrap_or_default();
    if modern {
        insert(&mut result, "resultType", Some(&"task"));
    } else {
        result = json!({"task": result});
    }
    DefaultResponse::WithSideEffect {
        effect: SideEffect::NotifyTask { id, modern },
        result,
    }
}

/// `execution.taskSupport` in the definition of the tool `research`.
fn task_support(state: &ServerState) -> String {
    let tools = state.tools();
    let is_named = |tool: &&Value| tool.get("name").is_some_and(|name| name == "research");
    let tool = tools.iter().find(is_named);
    let execution = tool.and_then(|tool| tool.get("execution"));
    let support = execution.and_then(|execution| execution.get("taskSupport"));
    support
        .and_then(Value::as_str)
        .unwrap_or("optional")
        .to_owned()
}

/// Handles a `tasks/…` method. Returns `None` if the server has no tasks or the era has no such
/// method.
pub(super) fn respond(
    state: &ServerState,
    request: &Request,
    modern: bool,
) -> Option<DefaultResponse> {
    let method = request.method.strip_prefix("tasks/")?;
    if !has_tasks(state, modern) {
        return None;
    }
    let is_known = match method {
        "get" | "cancel" => true,
        "update" => modern,
        "result" | "list" => !modern,
        _ => false,
    };
    if !is_known {
        return None;
    }
    if modern && !declares_tasks(request) {
        return Some(reject_undeclared());
    }
    if method == "list" {
        let tasks = state.platform.catalog().tasks().list_json();
        return Some(Listing::of("tasks", tasks).page(&state.script(), request, false));
    }
    let id = request.params.get("taskId").and_then(Value::as_str);
    let response = id.and_then(|id| respond_for_task(state, request, method, id, modern));
    let missing = || {
        DefaultResponse::error(
            INVALID_PARAMS,
            format!("no such task: {}", id.unwrap_or("")),
        )
    };
    Some(response.unwrap_or_else(missing))
}

/// Handles a method that concerns one task. Returns `None` if the task id is unknown.
fn respond_for_task(
    state: &ServerState,
    request: &Request,
    method: &str,
    id: &str,
    modern: bool,
) -> Option<DefaultResponse> {
    let tasks = state.platform.catalog().tasks();
    match (method, modern) {
        ("get", _) => {
            tasks.poll(id);
            let format = if modern {
                TaskFormat::ModernDetailed
            } else {
                TaskFormat::Legacy
            };
            let task = tasks.to_json(id, format)?;
            Some(DefaultResponse::Result(complete(task, modern)))
        }
        ("update", true) => {
            tasks.progress(id)?;
            let responses = request
                .params
                .get("inputResponses")
                .and_then(Value::as_object);
            for (key, response) in responses.into_iter().flatten() {
                tasks.answer_input(id, key, response);
            }
            Some(DefaultResponse::Result(complete(json!({}), true)))
        }
        ("cancel", true) => {
            tasks.cancel(id)?;
            Some(DefaultResponse::Result(complete(json!({}), true)))
        }
        ("cancel", false) => Some(if tasks.cancel(id)? {
            DefaultResponse::Result(tasks.to_json(id, TaskFormat::Legacy)?)
        } else {
            DefaultResponse::error(INVALID_PARAMS, format!("{id} has already ended"))
        }),
        ("result", false) => {
            tasks.progress(id)?;
            Some(DefaultResponse::AwaitTask { id: id.to_owned() })
        }
        _ => None,
    }
}
