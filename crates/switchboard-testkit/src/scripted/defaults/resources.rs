//! Default responses to `resources/read` and to the legacy subscription methods.

use serde_json::{Value, json};

use super::{DefaultResponse, INVALID_PARAMS, Request, ServerState, add_cache_hints, complete};

/// JSON-RPC error code for an unknown resource in the legacy era.
const NOT_FOUND: i64 = -32002;

pub(super) fn read(state: &ServerState, request: &Request, modern: bool) -> DefaultResponse {
    let Some(uri) = uri_of(request) else {
        return DefaultResponse::error(INVALID_PARAMS, "uri is missing");
    };
    let Some(contents) = state.platform.catalog().read(uri) else {
        return not_found(uri, modern);
    };
    let mut result = json!({"contents": contents});
    if modern {
        add_cache_hints(&mut result, &state.script());
    }
    DefaultResponse::Result(complete(result, modern))
}

pub(super) fn subscribe(state: &ServerState, request: &Request) -> DefaultResponse {
    let Some(uri) = uri_of(request) else {
        return DefaultResponse::error(INVALID_PARAMS, "uri is missing");
    };
    if !state.platform.catalog().has(uri) {
        return not_found(uri, false);
    }
    DefaultResponse::Subscribe {
        uri: uri.to_owned(),
    }
}

pub(super) fn unsubscribe(request: &Request) -> DefaultResponse {
    match uri_of(request) {
        Some(uri) => DefaultResponse::Unsubscribe {
            uri: uri.to_owned(),
        },
        None => DefaultResponse::error(INVALID_PARAMS, "uri is missing"),
    }
}

fn uri_of(request: &Request) -> Option<&str> {
    request.params.get("uri").and_then(Value::as_str)
}

fn not_found(uri: &str, modern: bool) -> DefaultResponse {
    DefaultResponse::Error {
        code: if modern { INVALID_PARAMS } else { NOT_FOUND },
        message: format!("resource not found: {uri}"),
        data: Some(json!({"uri": uri})),
    }
}
