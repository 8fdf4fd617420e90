//! Parses the JSON-RPC messages of the client, and encodes responses and notifications.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use switchboard_wire::mcp::{ErrorObject, Json};

/// JSON-RPC error code: the message is not JSON.
const PARSE_ERROR: i64 = -32700;

/// A valid JSON-RPC message of the client.
pub(super) enum Incoming {
    Request(Request),
    Notification(Notification),
    Response,
}

pub(super) struct Request {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
}

/// The parts of a notification that the adapter uses.
pub(super) struct Notification {
    /// The id of the request that `notifications/cancelled` cancels. `None` for any other
    /// notification.
    pub(super) cancelled: Option<Id>,
}

/// The id of a request. Ids are compared by their values and not by their JSON text: `"\u0061"`
/// equals `"a"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(serde_json::Number),
    String(String),
}

/// The members of a message that is not validated yet. Distinguishes a message without `id`, which
/// may be a notification, from one with `"id": null`, which is an error.
#[derive(Deserialize)]
pub(super) struct RawMessage<'a> {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default, borrow, deserialize_with = "deserialize_some")]
    id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "deserialize_some")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// Deserializes a member as `Some` if it is present, even if its value is `null`.
fn deserialize_some<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl RawMessage<'_> {
    /// The id of the message. `None` if it has no id, or one that is neither a number nor a string.
    pub(super) fn id(&self) -> Option<Id> {
        serde_json::from_str(self.id?.get()).ok()
    }

    fn has_id(&self) -> bool {
        self.id.is_some()
    }
}

/// Parses a message. An error comes with the id of the message, if the id could be read.
pub(super) fn parse(text: &str) -> Result<Incoming, (Option<Id>, ErrorObject)> {
    let message: RawMessage<'_> =
        serde_json::from_str(text).map_err(|error| (None, parse_error(text, &error)))?;
    let id = message.id();
    let invalid = |why: &str| {
        (
            id.clone(),
            ErrorObject::new(ErrorObject::INVALID_REQUEST, why),
        )
    };
    if message.jsonrpc.as_deref() != Some("2.0") {
        return Err(invalid(r#"a message must contain `"jsonrpc": "2.0"`"#));
    }
    if message.has_id() && id.is_none() {
        return Err(invalid("an id must be a number or a string"));
    }
    let is_response = message.result.is_some() || message.error.is_some();
    match (message.method, id.clone()) {
        (Some(method), Some(id)) => Ok(Incoming::Request(Request {
            id,
            method,
            params: message.params.map(ToOwned::to_owned),
        })),
        (Some(method), None) => Ok(Incoming::Notification(Notification {
            cancelled: message
                .params
                .filter(|_| method == "notifications/cancelled")
                .and_then(cancelled_id),
        })),
        (None, Some(_)) if is_response => Ok(Incoming::Response),
        (None, _) => Err(invalid(
            "a message must have a method, or an id and a result or an error",
        )),
    }
}

fn parse_error(text: &str, error: &serde_json::Error) -> ErrorObject {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error) => ErrorObject::new(PARSE_ERROR, format!("the message is not JSON: {error}")),
        Ok(_) if text.trim_start().starts_with('[') => ErrorObject::new(
            ErrorObject::INVALID_REQUEST,
            "batches are not supported; send one message at a time",
        ),
        Ok(_) => ErrorObject::new(
            ErrorObject::INVALID_REQUEST,
            format!("not a JSON-RPC message: {error}"),
        ),
    }
}

fn cancelled_id(params: &RawValue) -> Option<Id> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CancelledParams {
        request_id: Id,
    }
    let params: CancelledParams = serde_json::from_str(params.get()).ok()?;
    Some(params.request_id)
}

/// Encodes a response with a result. If the result cannot be serialized, encodes an error response.
pub(super) fn success(id: &Id, result: &impl Serialize) -> Json {
    #[derive(Serialize)]
    struct Success<'a, T> {
        jsonrpc: &'static str,
        id: &'a Id,
        result: &'a T,
    }
    let response = Success {
        jsonrpc: "2.0",
        id,
        result,
    };
    serde_json::value::to_raw_value(&response).map_or_else(
        |error| failure(Some(id), &serialization_error(&error)),
        Json::from,
    )
}

/// Encodes an error response. Without `id`, the id of the response is null.
pub(super) fn failure(id: Option<&Id>, error: &ErrorObject) -> Json {
    #[derive(Serialize)]
    struct Failure<'a> {
        jsonrpc: &'static str,
        id: Option<&'a Id>,
        error: &'a ErrorObject,
    }
    let response = Failure {
        jsonrpc: "2.0",
        id,
        error,
    };
    serde_json::value::to_raw_value(&response).map_or_else(
        |error| {
            let error = serialization_error(&error);
            Json::from(&serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}))
        },
        Json::from,
    )
}

/// The error of a response that cannot be serialized.
pub(super) fn serialization_error(error: &serde_json::Error) -> ErrorObject {
    let why = format!("cannot serialize the response as JSON: {error}");
    ErrorObject::new(ErrorObject::INTERNAL, why)
}

pub(super) fn notification(method: &str, params: Option<serde_json::Value>) -> Json {
    let mut message = serde_json::json!({"jsonrpc": "2.0", "method": method});
    if let (Some(params), Some(members)) = (params, message.as_object_mut()) {
        members.insert("params".to_owned(), params);
    }
    Json::from(&message)
}

/// Encodes the notification that cancels the request with this id.
pub(super) fn cancellation(id: &Id, reason: &str) -> Json {
    let params = serde_json::json!({"requestId": id, "reason": reason});
    notification("notifications/cancelled", Some(params))
}
