//! How a well-behaved server handles the messages for which the script has no steps.
//!
//! This module computes responses and does not send them.

mod completion;
mod listing;
mod prompts;
mod resources;
mod task_methods;
mod tools;

use std::time::Duration;

use serde_json::{Value, json};

use super::listeners::acknowledge;
use super::message::Request;
use super::state::ServerState;
use crate::script::{Era, Flood, Script};
use listing::Listing;

pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNSUPPORTED_VERSION: i64 = -32022;

/// How the server handles a request for which the script has no steps.
#[derive(Debug)]
pub(super) enum DefaultResponse {
    Result(Value),
    Error {
        code: i64,
        message: String,
        data: Option<Value>,
    },
    /// Sends the result after `time`.
    Sleep {
        time: Duration,
        result: Value,
    },
    /// Acknowledges a `subscriptions/listen` request with this filter, then waits until the request
    /// ends.
    Listen {
        filter: Value,
    },
    /// Subscribes a client of the legacy era to a resource.
    Subscribe {
        uri: String,
    },
    Unsubscribe {
        uri: String,
    },
    /// Waits until a task has ended and sends its result.
    AwaitTask {
        id: String,
    },
    /// Applies a side effect, then sends the result.
    WithSideEffect {
        effect: SideEffect,
        result: Value,
    },
    Silence,
    Exit(i32),
}

/// What a tool call does in addition to its result.
#[derive(Debug)]
pub(super) enum SideEffect {
    Announce {
        method: &'static str,
        params: Option<Value>,
    },
    Flood(Flood),
    /// Notifies the client after each step of a task.
    NotifyTask {
        id: String,
        modern: bool,
    },
}

impl DefaultResponse {
    fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error {
            code,
            message: message.into(),
            data: None,
        }
    }
}

/// Handles a notification. Only `notifications/cancelled` has an effect: it cancels the request
/// with the id `requestId`.
pub(super) fn handle_notification(state: &ServerState, notification: &Request) {
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.get("requestId")
    {
        state.cancel(id);
    }
}

/// Returns whether the server handles the request by the rules of the modern era.
pub(super) fn is_modern(script: &Script, request: &Request) -> bool {
    match script.era {
        Era::Modern => true,
        Era::Both => request.method == "server/discover" || request.meta(META_VERSION).is_some(),
        Era::Legacy | Era::LegacyExitsOnProbe | Era::LegacySilentOnProbe => false,
    }
}

/// Returns a tool result of one text block, with a `resultType` if `modern`.
pub(super) fn text_result(text: &str, modern: bool) -> Value {
    complete(json!({"content": [{"type": "text", "text": text}]}), modern)
}

/// Computes how the server handles a request by default.
pub(super) fn respond(state: &ServerState, request: &Request) -> DefaultResponse {
    let script = state.script();
    let modern = is_modern(&script, request);
    if modern && let Some(rejection) = reject_missing_meta(&script, request) {
        return rejection;
    }
    match (request.method.as_str(), modern) {
        ("initialize", false) => DefaultResponse::Result(initialize(&script, request)),
        ("ping", false) => DefaultResponse::Result(json!({})),
        ("server/discover", true) => DefaultResponse::Result(discover(&script)),
        ("server/discover", false) => respond_to_probe(script.era),
        ("subscriptions/listen", true) => {
            let filter = request.params.get("notifications").unwrap_or(&Value::Null);
            if filter.get("taskIds").is_some() && !task_methods::declares_tasks(request) {
                return task_methods::reject_undeclared();
            }
            DefaultResponse::Listen {
                filter: acknowledge(&script, filter),
            }
        }
        ("tools/list", _) => {
            let listing = Listing::of("tools", state.tools());
            listing.page(&script, request, modern)
        }
        ("tools/call", _) => tools::call(state, request, modern),
        (method, _) => respond_for_capability(state, request, modern)
            .or_else(|| task_methods::respond(state, request, modern))
            .unwrap_or_else(|| unknown_method(method)),
    }
}

/// Handles a method of a capability other than tools. Returns `None` if the server lacks the
/// capability or the method is unknown.
fn respond_for_capability(
    state: &ServerState,
    request: &Request,
    modern: bool,
) -> Option<DefaultResponse> {
    let script = state.script();
    let catalog = state.platform.catalog();
    let page = |listing: Listing| listing.page(&script, request, modern);
    let (capability, _) = request.method.split_once('/')?;
    let capability = match capability {
        "completion" => "completions",
        other => other,
    };
    let capability = script.capabilities.get(capability)?;
    let can_subscribe = !modern && capability.get("subscribe") == Some(&json!(true));
    Some(match request.method.as_str() {
        "resources/list" => page(Listing::of("resources", catalog.resources())),
        "resources/templates/list" => page(Listing::of("resourceTemplates", catalog.templates())),
        "resources/read" => resources::read(state, request, modern),
        "resources/subscribe" if can_subscribe => resources::subscribe(state, request),
        "resources/unsubscribe" if can_subscribe => resources::unsubscribe(request),
        "prompts/list" => page(Listing::of("prompts", catalog.prompts())),
        "prompts/get" => prompts::get(&catalog.prompts(), request, modern),
        "completion/complete" => completion::complete(state, request, modern),
        _ => return None,
    })
}

fn unknown_method(method: &str) -> DefaultResponse {
    DefaultResponse::error(METHOD_NOT_FOUND, format!("method not found: {method}"))
}

/// Returns the error response of the modern era to a request with missing or wrong `_meta`; `None`
/// if `_meta` is correct.
fn reject_missing_meta(script: &Script, request: &Request) -> Option<DefaultResponse> {
    // These methods do not exist in the modern era, so `_meta` does not matter.
    if matches!(request.method.as_str(), "initialize" | "ping") {
        return Some(unknown_method(&request.method));
    }
    let Some(version) = request.meta(META_VERSION).and_then(Value::as_str) else {
        return Some(DefaultResponse::error(
            INVALID_PARAMS,
            format!("_meta lacks {META_VERSION}"),
        ));
    };
    if !request
        .meta(META_CAPABILITIES)
        .is_some_and(Value::is_object)
    {
        return Some(DefaultResponse::error(
            INVALID_PARAMS,
            format!("_meta lacks {META_CAPABILITIES}"),
        ));
    }
    let supported = &script.supported_versions;
    (!supported.iter().any(|known| known == version)).then(|| DefaultResponse::Error {
        code: UNSUPPORTED_VERSION,
        message: format!("unsupported protocol version {version}"),
        data: Some(json!({"supported": supported, "requested": version})),
    })
}

fn respond_to_probe(era: Era) -> DefaultResponse {
    match era {
        Era::LegacyExitsOnProbe => DefaultResponse::Exit(1),
        Era::LegacySilentOnProbe => DefaultResponse::Silence,
        Era::Legacy | Era::Modern | Era::Both => unknown_method("server/discover"),
    }
}

fn initialize(script: &Script, request: &Request) -> Value {
    let requested = request.params.get("protocolVersion").cloned();
    let version = script.protocol_version.clone().map(Value::String);
    let mut result = json!({
        "protocolVersion": version.or(requested),
        "capabilities": script.capabilities,
        "serverInfo": script.server_info,
    });
    insert(&mut result, "instructions", script.instructions.as_ref());
    result
}

fn discover(script: &Script) -> Value {
    let mut result = json!({
        "supportedVersions": script.supported_versions,
        "capabilities": script.capabilities,
    });
    insert(&mut result, "instructions", script.instructions.as_ref());
    add_cache_hints(&mut result, script);
    insert(
        &mut result,
        "_meta",
        Some(&json!({META_SERVER: script.server_info})),
    );
    complete(result, true)
}

/// Adds `resultType` to a result if `modern`. The legacy era has no such member.
fn complete(mut result: Value, modern: bool) -> Value {
    if modern {
        insert(&mut result, "resultType", Some(&"complete"));
    }
    result
}

fn add_cache_hints(result: &mut Value, script: &Script) {
    let non_null = |hint: &Value| (!hint.is_null()).then(|| hint.clone());
    insert(result, "ttlMs", non_null(&script.ttl_ms).as_ref());
    insert(result, "cacheScope", non_null(&script.cache_scope).as_ref());
}

fn insert(object: &mut Value, key: &str, value: Option<&impl serde::Serialize>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(key.to_owned(), json!(value));
    }
}
