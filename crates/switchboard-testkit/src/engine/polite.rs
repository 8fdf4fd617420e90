//! What a well-behaved server answers where the script says nothing. Decides; writes nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::message::Request;
use super::shared::Shared;
use crate::script::{Cursors, Era, Script};

pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNSUPPORTED_VERSION: i64 = -32022;

/// What to do about a request.
#[derive(Debug)]
pub(super) enum Polite {
    Result(Value),
    Error {
        code: i64,
        message: String,
        data: Option<Value>,
    },
    /// Answers after a while.
    Sleep {
        time: Duration,
        result: Value,
    },
    /// Opens a subscription to these kinds of notification.
    Listen {
        filter: Value,
    },
    Silence,
    Exit(i32),
}

impl Polite {
    fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error {
            code,
            message: message.into(),
            data: None,
        }
    }
}

/// Heeds a notification; only a cancellation has a consequence.
pub(super) fn heed(shared: &Shared, notification: &Request) {
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.get("requestId")
    {
        shared.cancel(id);
    }
}

/// Whether the request is to be answered as the modern revision wants it.
pub(super) fn is_modern(script: &Script, request: &Request) -> bool {
    match script.era {
        Era::Modern => true,
        Era::Both => request.method == "server/discover" || request.meta(META_VERSION).is_some(),
        Era::Legacy | Era::LegacyExitsOnProbe | Era::LegacySilentOnProbe => false,
    }
}

/// A tool result of one text block.
pub(super) fn text_result(text: &str, modern: bool) -> Value {
    complete(json!({"content": [{"type": "text", "text": text}]}), modern)
}

/// Answers a request.
pub(super) fn answer(shared: &Shared, request: &Request) -> Polite {
    let script = shared.script();
    let modern = is_modern(&script, request);
    if modern && let Some(refusal) = refuse_undescribed(&script, request) {
        return refusal;
    }
    match (request.method.as_str(), modern) {
        ("initialize", false) => Polite::Result(initialize(&script, request)),
        ("ping", false) => Polite::Result(json!({})),
        ("server/discover", true) => Polite::Result(discover(&script)),
        ("server/discover", false) => answer_probe(script.era),
        ("subscriptions/listen", true) => {
            let filter = request.params.get("notifications").cloned();
            Polite::Listen {
                filter: filter.unwrap_or_else(|| json!({})),
            }
        }
        ("tools/list", _) => list_tools(&script, &shared.tools(), request, modern),
        ("tools/call", _) => call_tool(shared, request, modern),
        (method, _) => unknown_method(method),
    }
}

fn unknown_method(method: &str) -> Polite {
    Polite::error(METHOD_NOT_FOUND, format!("method not found: {method}"))
}

/// What a modern server says to a request that does not describe itself properly.
fn refuse_undescribed(script: &Script, request: &Request) -> Option<Polite> {
    // An unknown method is unknown in whatever version.
    if matches!(request.method.as_str(), "initialize" | "ping") {
        return Some(unknown_method(&request.method));
    }
    let Some(version) = request.meta(META_VERSION).and_then(Value::as_str) else {
        return Some(Polite::error(
            INVALID_PARAMS,
            format!("_meta lacks {META_VERSION}"),
        ));
    };
    if !request
        .meta(META_CAPABILITIES)
        .is_some_and(Value::is_object)
    {
        return Some(Polite::error(
            INVALID_PARAMS,
            format!("_meta lacks {META_CAPABILITIES}"),
        ));
    }
    let supported = &script.supported_versions;
    (!supported.iter().any(|known| known == version)).then(|| Polite::Error {
        code: UNSUPPORTED_VERSION,
        message: format!("unsupported protocol version {version}"),
        data: Some(json!({"supported": supported, "requested": version})),
    })
}

fn answer_probe(era: Era) -> Polite {
    match era {
        Era::LegacyExitsOnProbe => Polite::Exit(1),
        Era::LegacySilentOnProbe => Polite::Silence,
        Era::Legacy | Era::Modern | Era::Both => unknown_method("server/discover"),
    }
}

fn initialize(script: &Script, request: &Request) -> Value {
    let asked = request.params.get("protocolVersion").cloned();
    let version = script.protocol_version.clone().map(Value::String);
    let mut result = json!({
        "protocolVersion": version.or(asked),
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

/// Marks a result as final, which only the modern revision does.
fn complete(mut result: Value, modern: bool) -> Value {
    if modern {
        insert(&mut result, "resultType", Some(&"complete"));
    }
    result
}

fn add_cache_hints(result: &mut Value, script: &Script) {
    let given = |hint: &Value| (!hint.is_null()).then(|| hint.clone());
    insert(result, "ttlMs", given(&script.ttl_ms).as_ref());
    insert(result, "cacheScope", given(&script.cache_scope).as_ref());
}

fn insert(object: &mut Value, key: &str, value: Option<&impl serde::Serialize>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(key.to_owned(), json!(value));
    }
}

fn list_tools(script: &Script, tools: &[Value], request: &Request, modern: bool) -> Polite {
    let size = script.page_size.unwrap_or(tools.len()).max(1);
    let page = match request.params.get("cursor") {
        None | Some(Value::Null) => Some(0),
        Some(cursor) => cursor.as_str().and_then(|cursor| page_of(cursor, script)),
    };
    let Some(page) = page else {
        return Polite::error(INVALID_PARAMS, "unknown cursor");
    };
    let shown: Vec<_> = tools.iter().skip(page * size).take(size).collect();
    let is_last = (page + 1) * size >= tools.len();
    let next = match script.cursors {
        Cursors::Plain | Cursors::EmptyFirst if is_last => None,
        Cursors::EmptyFirst if page == 0 => Some(String::new()),
        Cursors::Loop => Some(cursor_to(1, script)),
        Cursors::Plain | Cursors::EmptyFirst | Cursors::Endless => {
            Some(cursor_to(page + 1, script))
        }
    };
    let mut result = json!({"tools": shown});
    insert(&mut result, "nextCursor", next.as_ref());
    if modern {
        add_cache_hints(&mut result, script);
    }
    Polite::Result(complete(result, modern))
}

fn cursor_to(page: usize, script: &Script) -> String {
    let number = page.to_string();
    let padding = script.cursor_bytes.saturating_sub(number.len());
    number + &".".repeat(padding)
}

fn page_of(cursor: &str, script: &Script) -> Option<usize> {
    if cursor.is_empty() && script.cursors == Cursors::EmptyFirst {
        return Some(1);
    }
    cursor.trim_end_matches('.').parse().ok()
}

fn call_tool(shared: &Shared, request: &Request, modern: bool) -> Polite {
    let text = |text: &str| Polite::Result(text_result(text, modern));
    let host = &shared.host;
    match request.subject().unwrap_or_default() {
        "echo" => text(
            request
                .argument("message")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        ),
        "add" => Polite::Result(add(request, modern)),
        "sleep" => {
            let ms = request
                .argument("ms")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            Polite::Sleep {
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
        other => {
            let mut result = text_result(&format!("no script for {other}"), modern);
            insert(&mut result, "isError", Some(&true));
            Polite::Result(result)
        }
    }
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
