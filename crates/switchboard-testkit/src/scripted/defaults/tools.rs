//! Default behaviour of the built-in tools.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::listeners::{PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED, UPDATED};
use super::{DefaultResponse, Request, ServerState, SideEffect, insert, task_methods, text_result};
use crate::script::resource;

pub(super) fn call(state: &ServerState, request: &Request, modern: bool) -> DefaultResponse {
    let text = |text: &str| DefaultResponse::Result(text_result(text, modern));
    let platform = &state.platform;
    match request.subject().unwrap_or_default() {
        "echo" => text(
            request
                .argument("message")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        ),
        "add" => DefaultResponse::Result(add(request, modern)),
        "sleep" => {
            let ms = request
                .argument("ms")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            DefaultResponse::Sleep {
                time: Duration::from_millis(ms),
                result: text_result(&format!("slept {ms} ms"), modern),
            }
        }
        "pid" => text(&platform.process_id().to_string()),
        "env" => {
            let names = platform.env_vars().into_iter().map(|(name, _)| name);
            text(&names.collect::<Vec<_>>().join("\n"))
        }
        "fds" => {
            let numbers = platform.inherited_descriptors().iter().map(i32::to_string);
            text(&numbers.collect::<Vec<_>>().join("\n"))
        }
        "cwd" => {
            let directory = std::env::current_dir().unwrap_or_default();
            text(&directory.to_string_lossy())
        }
        "research" => task_methods::research(state, request, modern),
        other => call_catalog_tool(state, request, other, modern)
            .unwrap_or_else(|| failure(&format!("tool {other} has no script"), modern)),
    }
}

/// Calls a built-in tool through which a client changes the catalog, triggers notifications, or
/// reads counters and subscriptions. Returns `None` if there is no such tool.
fn call_catalog_tool(
    state: &ServerState,
    request: &Request,
    tool: &str,
    modern: bool,
) -> Option<DefaultResponse> {
    let catalog = state.platform.catalog();
    let argument = |name: &str| request.argument(name).and_then(Value::as_str);
    let uri = argument("uri").unwrap_or_default();
    let text = argument("text").unwrap_or_default();
    let announce = |method, params| DefaultResponse::WithSideEffect {
        effect: SideEffect::Announce { method, params },
        result: text_result("done", modern),
    };
    Some(match tool {
        "set_resource" if catalog.set_text(uri, text) => {
            announce(UPDATED, Some(json!({"uri": uri})))
        }
        "add_resource" => {
            catalog.add_resource(resource(uri, text));
            announce(RESOURCES_CHANGED, None)
        }
        "remove_resource" if catalog.remove_resource(uri) => announce(RESOURCES_CHANGED, None),
        "set_resource" | "remove_resource" => failure(&format!("unknown resource {uri}"), modern),
        "touch_resources" => announce(RESOURCES_CHANGED, None),
        "touch_prompts" => announce(PROMPTS_CHANGED, None),
        "touch_tools" => announce(TOOLS_CHANGED, None),
        "updates_flood" => {
            let arguments = request.params.get("arguments").cloned().unwrap_or_default();
            let Ok(flood) = serde_json::from_value(arguments) else {
                return Some(failure("invalid flood: count is required", modern));
            };
            DefaultResponse::WithSideEffect {
                effect: SideEffect::Flood(flood),
                result: text_result("started", modern),
            }
        }
        "counts" => {
            DefaultResponse::Result(text_result(&json!(catalog.counts()).to_string(), modern))
        }
        "subscribed" => {
            DefaultResponse::Result(text_result(&state.subscribed().join("\n"), modern))
        }
        _ => return None,
    })
}

fn failure(text: &str, modern: bool) -> DefaultResponse {
    let mut result = text_result(text, modern);
    insert(&mut result, "isError", Some(&true));
    DefaultResponse::Result(result)
}

fn add(request: &Request, modern: bool) -> Value {
    let (a, b) = (request.argument("a"), request.argument("b"));
    let integer = |value: Option<&Value>| value.and_then(Value::as_i64);
    let float = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or_default();
    let sum = match (integer(a), integer(b)) {
        (Some(a), Some(b)) => json!(a.wrapping_add(b)),
        _ => json!(float(a) + float(b)),
    };
    let mut result = text_result(&sum.to_string(), modern);
    insert(&mut result, "structuredContent", Some(&json!({"sum": sum})));
    result
}
