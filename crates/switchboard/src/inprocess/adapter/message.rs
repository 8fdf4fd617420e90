//! What a message of JSON-RPC is, and how answers are written.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::mcp::{ErrorObject, Json};

/// The text is not JSON.
const PARSE_ERROR: i64 = -32700;

/// A message that was read.
pub(super) enum Incoming {
    Request(Request),
    Note(Note),
    Response,
}

pub(super) struct Request {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
}

/// A notification, as far as it matters to the adapter.
pub(super) struct Note {
    /// The request that nobody waits for any more.
    pub(super) cancelled: Option<Id>,
}

/// The id of a request: equal if it means the same, however it is spelled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(serde_json::Number),
    Text(String),
}

/// A message as it is written. Members that are there are kept apart from those that are not, so that
/// `"id": null` is not taken for a notification.
#[derive(Deserialize)]
pub(super) struct Written<'a> {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Written<'_> {
    pub(super) fn id(&self) -> Option<Id> {
        serde_json::from_str(self.id?.get()).ok()
    }

    pub(super) fn has_id(&self) -> bool {
        self.id.is_some()
    }
}

/// Reads a message, or says what is wrong with it and whose message it was.
pub(super) fn read(text: &str) -> Result<Incoming, (Option<Id>, ErrorObject)> {
    let written: Written<'_> =
        serde_json::from_str(text).map_err(|error| (None, malformed(text, &error)))?;
    let id = written.id();
    let wrong = |what: &str| {
        (
            id.clone(),
            ErrorObject::new(ErrorObject::INVALID_REQUEST, what),
        )
    };
    if written.jsonrpc.as_deref() != Some("2.0") {
        return Err(wrong(r#"a message has to say `"jsonrpc": "2.0"`"#));
    }
    if written.has_id() && id.is_none() {
        return Err(wrong("an id has to be a number or a string"));
    }
    let is_response = written.result.is_some() || written.error.is_some();
    match (written.method, id.clone()) {
        (Some(method), Some(id)) => Ok(Incoming::Request(Request {
            id,
            method,
            params: written.params.map(ToOwned::to_owned),
        })),
        (Some(method), None) => Ok(Incoming::Note(Note {
            cancelled: written
                .params
                .filter(|_| method == "notifications/cancelled")
                .and_then(cancelled),
        })),
        (None, Some(_)) if is_response => Ok(Incoming::Response),
        (None, _) => Err(wrong(
            "a message has to have a method, or an id and a result or an error",
        )),
    }
}

fn malformed(text: &str, error: &serde_json::Error) -> ErrorObject {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error) => ErrorObject::new(PARSE_ERROR, format!("the message is not JSON: {error}")),
        Ok(_) if text.trim_start().starts_with('[') => ErrorObject::new(
            ErrorObject::INVALID_REQUEST,
            "there are no batches: send one message at a time",
        ),
        Ok(_) => ErrorObject::new(
            ErrorObject::INVALID_REQUEST,
            format!("this is not a message of JSON-RPC: {error}"),
        ),
    }
}

fn cancelled(params: &RawValue) -> Option<Id> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled {
        request_id: Id,
    }
    let cancelled: Cancelled = serde_json::from_str(params.get()).ok()?;
    Some(cancelled.request_id)
}

/// An answer that has the result, if that can be written.
pub(super) fn success(id: &Id, result: &impl Serialize) -> Json {
    #[derive(Serialize)]
    struct Success<'a, T> {
        jsonrpc: &'static str,
        id: &'a Id,
        result: &'a T,
    }
    let answer = Success {
        jsonrpc: "2.0",
        id,
        result,
    };
    serde_json::value::to_raw_value(&answer).map_or_else(
        |error| {
            let why = format!("the answer cannot be written as JSON: {error}");
            failure(Some(id), &ErrorObject::new(ErrorObject::INTERNAL, why))
        },
        Json::from,
    )
}

/// An answer that says what went wrong. It is for nobody in particular if it is not known who asked.
pub(super) fn failure(id: Option<&Id>, error: &ErrorObject) -> Json {
    #[derive(Serialize)]
    struct Failure<'a> {
        jsonrpc: &'static str,
        id: Option<&'a Id>,
        error: &'a ErrorObject,
    }
    let answer = Failure {
        jsonrpc: "2.0",
        id,
        error,
    };
    let written = serde_json::value::to_raw_value(&answer);
    written.map_or_else(|_| unwritable(id), Json::from)
}

fn unwritable(id: Option<&Id>) -> Json {
    let error = ErrorObject::new(ErrorObject::INTERNAL, "the error cannot be written as JSON");
    Json::from(&serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// A notification.
pub(super) fn notification(method: &str, params: Option<serde_json::Value>) -> Json {
    let mut message = serde_json::json!({"jsonrpc": "2.0", "method": method});
    if let (Some(params), Some(members)) = (params, message.as_object_mut()) {
        members.insert("params".to_owned(), params);
    }
    Json::from(&message)
}

/// That nobody waits for a request any more.
pub(super) fn cancellation(id: &Id, reason: &str) -> Json {
    let params = serde_json::json!({"requestId": id, "reason": reason});
    notification("notifications/cancelled", Some(params))
}
