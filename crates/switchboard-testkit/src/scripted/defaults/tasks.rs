//! Tasks: `research`, which becomes one, and what can be asked of it in both eras.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::tasks::{TaskFormat, TaskSpec};
use super::{DefaultAnswer, INVALID_PARAMS, Listing, METHOD_NOT_FOUND, SideEffect};
use super::{META_CAPABILITIES, Request, ServerState, complete, insert, text_result};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const MISSING_CAPABILITY: i64 = -32021;
/// How many steps there are where nothing is said.
const STEPS: u64 = 3;

/// Whether the server has tasks, in the way of the era.
fn has_tasks(shared: &ServerState, modern: bool) -> bool {
    let script = shared.script();
    let capabilities = &script.capabilities;
    if modern {
        let extensions = capabilities.get("extensions");
        return extensions.is_some_and(|extensions| extensions.get(EXTENSION).is_some());
    }
    capabilities.get("tasks").is_some()
}

/// Whether the client says in this request that it knows the extension.
pub(super) fn is_declared(request: &Request) -> bool {
    let capabilities = request.meta(META_CAPABILITIES);
    let extensions = capabilities.and_then(|capabilities| capabilities.get("extensions"));
    extensions.is_some_and(|extensions| extensions.get(EXTENSION).is_some())
}

pub(super) fn refuse_undeclared() -> DefaultAnswer {
    DefaultAnswer::Error {
        code: MISSING_CAPABILITY,
        message: format!("the client lacks the extension {EXTENSION}"),
        data: Some(json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}})),
    }
}

/// The tool `research`: a task where client and server know tasks, and a long call where they do not.
pub(super) fn research(shared: &ServerState, request: &Request, modern: bool) -> DefaultAnswer {
    let script = shared.script();
    let wanted = request.params.get("task");
    let support = support(shared);
    let is_task = has_tasks(shared, modern)
        && support != "forbidden"
        && (if modern {
            is_declared(request)
        } else {
            wanted.is_some()
        });
    if !is_task && support == "required" {
        return if modern {
            refuse_undeclared()
        } else {
            DefaultAnswer::error(METHOD_NOT_FOUND, "research must be called as a task")
        };
    }
    if !is_task && !modern && wanted.is_some() {
        return DefaultAnswer::error(METHOD_NOT_FOUND, "research cannot be called as a task");
    }
    let flag = |name: &str| request.argument(name) == Some(&json!(true));
    let topic = request.argument("topic").and_then(Value::as_str);
    let steps = request.argument("steps").and_then(Value::as_u64);
    let asked_ttl = wanted
        .and_then(|task| task.get("ttl"))
        .and_then(Value::as_u64);
    let order = TaskSpec {
        topic: topic.unwrap_or("anything").to_owned(),
        steps: steps.unwrap_or(STEPS).max(1),
        asks: flag("ask"),
        fails: flag("fail"),
        ttl_ms: asked_ttl.or(script.tasking.ttl_ms),
    };
    shared.host.counts_as("ran research");
    if !is_task {
        let pause = Duration::from_millis(script.tasking.poll_ms.unwrap_or_default());
        let TaskSpec { topic, steps, .. } = &order;
        return DefaultAnswer::Sleep {
            time: pause.saturating_mul(u32::try_from(*steps).unwrap_or(u32::MAX)),
            result: text_result(&format!("research on {topic} in {steps} steps"), modern),
        };
    }
    let tasks = shared.host.stock().tasks();
    let id = tasks.begin(order, &script.tasking);
    let form = if modern {
        TaskFormat::Modern
    } else {
        TaskFormat::Legacy
    };
    let mut result = tasks.show(&id, form).unwrap_or_default();
    if modern {
        insert(&mut result, "resultType", Some(&"task"));
    } else {
        result = json!({"task": result});
    }
    DefaultAnswer::SideEffect {
        change: SideEffect::Follow { id, modern },
        result,
    }
}

/// What the tool says of itself.
fn support(shared: &ServerState) -> String {
    let tools = shared.tools();
    let is_named = |tool: &&Value| tool.get("name").is_some_and(|name| name == "research");
    let tool = tools.iter().find(is_named);
    let execution = tool.and_then(|tool| tool.get("execution"));
    let support = execution.and_then(|execution| execution.get("taskSupport"));
    support
        .and_then(Value::as_str)
        .unwrap_or("optional")
        .to_owned()
}

/// Answers what is asked of tasks; none if the server has none, or the era does not know the method.
pub(super) fn answer(
    shared: &ServerState,
    request: &Request,
    modern: bool,
) -> Option<DefaultAnswer> {
    let method = request.method.strip_prefix("tasks/")?;
    if !has_tasks(shared, modern) {
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
    if modern && !is_declared(request) {
        return Some(refuse_undeclared());
    }
    if method == "list" {
        let tasks = shared.host.stock().tasks().show_all();
        return Some(Listing::of("tasks", tasks).page(&shared.script(), request, false));
    }
    let id = request.params.get("taskId").and_then(Value::as_str);
    let done = id.and_then(|id| ask(shared, request, method, id, modern));
    let missing = || {
        DefaultAnswer::error(
            INVALID_PARAMS,
            format!("no such task: {}", id.unwrap_or("")),
        )
    };
    Some(done.unwrap_or_else(missing))
}

/// Answers what is asked of one task; none if there is none of that id.
fn ask(
    shared: &ServerState,
    request: &Request,
    method: &str,
    id: &str,
    modern: bool,
) -> Option<DefaultAnswer> {
    let tasks = shared.host.stock().tasks();
    match (method, modern) {
        ("get", _) => {
            tasks.poll(id);
            let form = if modern {
                TaskFormat::ModernWhole
            } else {
                TaskFormat::Legacy
            };
            let task = tasks.show(id, form)?;
            Some(DefaultAnswer::Result(complete(task, modern)))
        }
        ("update", true) => {
            tasks.standing(id)?;
            let responses = request
                .params
                .get("inputResponses")
                .and_then(Value::as_object);
            for (key, response) in responses.into_iter().flatten() {
                tasks.answer(id, key, response);
            }
            Some(DefaultAnswer::Result(complete(json!({}), true)))
        }
        ("cancel", true) => {
            tasks.cancel(id)?;
            Some(DefaultAnswer::Result(complete(json!({}), true)))
        }
        ("cancel", false) => Some(if tasks.cancel(id)? {
            DefaultAnswer::Result(tasks.show(id, TaskFormat::Legacy)?)
        } else {
            DefaultAnswer::error(INVALID_PARAMS, format!("{id} has ended already"))
        }),
        ("result", false) => {
            tasks.standing(id)?;
            Some(DefaultAnswer::AwaitTask { id: id.to_owned() })
        }
        _ => None,
    }
}
