//! What the tools do that a polite server knows.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::listeners::{PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED, UPDATED};
use super::{DefaultAnswer, Request, ServerState, SideEffect, insert, tasks, text_result};
use crate::script::resource;

pub(super) fn call(shared: &ServerState, request: &Request, modern: bool) -> DefaultAnswer {
    let text = |text: &str| DefaultAnswer::Result(text_result(text, modern));
    let host = &shared.host;
    match request.subject().unwrap_or_default() {
        "echo" => text(
            request
                .argument("message")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        ),
        "add" => DefaultAnswer::Result(add(request, modern)),
        "sleep" => {
            let ms = request
                .argument("ms")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            DefaultAnswer::Sleep {
                time: Duration::from_millis(ms),
                result: text_result(&format!("slept {ms} ms"), modern),
            }
        }
        "pid" => text(&host.process_id().to_string()),
        "env" => {
            let names = host.environment().into_iter().map(|(name, _)| name);
            text(&names.collect::<Vec<_>>().join("\n"))
        }
        "fds" => {
            let numbers = host.inherited_descriptors().iter().map(i32::to_string);
            text(&numbers.collect::<Vec<_>>().join("\n"))
        }
        "cwd" => {
            let directory = std::env::current_dir().unwrap_or_default();
            text(&directory.to_string_lossy())
        }
        "research" => tasks::research(shared, request, modern),
        other => change(shared, request, other, modern)
            .unwrap_or_else(|| failure(&format!("no script for {other}"), modern)),
    }
}

/// Tools that change what is offered, so that a client can cause what it wants to hear of.
fn change(
    shared: &ServerState,
    request: &Request,
    tool: &str,
    modern: bool,
) -> Option<DefaultAnswer> {
    let stock = shared.host.stock();
    let argument = |name: &str| request.argument(name).and_then(Value::as_str);
    let uri = argument("uri").unwrap_or_default();
    let text = argument("text").unwrap_or_default();
    let announce = |method, params| DefaultAnswer::SideEffect {
        change: SideEffect::Announce { method, params },
        result: text_result("done", modern),
    };
    Some(match tool {
        "set_resource" if stock.set_text(uri, text) => announce(UPDATED, Some(json!({"uri": uri}))),
        "add_resource" => {
            stock.add_resource(resource(uri, text));
            announce(RESOURCES_CHANGED, None)
        }
        "remove_resource" if stock.remove_resource(uri) => announce(RESOURCES_CHANGED, None),
        "set_resource" | "remove_resource" => failure(&format!("there is no {uri}"), modern),
        "touch_resources" => announce(RESOURCES_CHANGED, None),
        "touch_prompts" => announce(PROMPTS_CHANGED, None),
        "touch_tools" => announce(TOOLS_CHANGED, None),
        "updates_flood" => {
            let arguments = request.params.get("arguments").cloned().unwrap_or_default();
            let Ok(flood) = serde_json::from_value(arguments) else {
                return Some(failure("not a flood: give at least a count", modern));
            };
            DefaultAnswer::SideEffect {
                change: SideEffect::Flood(flood),
                result: text_result("begun", modern),
            }
        }
        "counts" => DefaultAnswer::Result(text_result(&json!(stock.counts()).to_string(), modern)),
        "subscribed" => DefaultAnswer::Result(text_result(&shared.subscribed().join("\n"), modern)),
        _ => return None,
    })
}

fn failure(text: &str, modern: bool) -> DefaultAnswer {
    let mut result = text_result(text, modern);
    insert(&mut result, "isError", Some(&true));
    DefaultAnswer::Result(result)
}

fn add(request: &Request, modern: bool) -> Value {
    let (a, b) = (request.argument("a"), request.argument("b"));
    let whole = |value: Option<&Value>| value.and_then(Value::as_i64);
    let broken = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or_default();
    let sum = match (whole(a), whole(b)) {
        (Some(a), Some(b)) => json!(a.wrapping_add(b)),
        _ => json!(broken(a) + broken(b)),
    };
    let mut result = text_result(&sum.to_string(), modern);
    insert(&mut result, "structuredContent", Some(&json!({"sum": sum})));
    result
}
