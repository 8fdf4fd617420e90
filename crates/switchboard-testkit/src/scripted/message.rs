//! Parses client lines and formats server lines. Pure functions.

use serde_json::{Value, json};

/// A parsed line from the client.
#[derive(Debug)]
pub(crate) enum Message {
    Request(Request),
    Notification {
        method: String,
        params: Value,
    },
    /// A complete JSON-RPC response of the client to a request of the server.
    Response(Value),
    Invalid {
        code: i64,
        reason: &'static str,
    },
}

/// A request or notification from the client. A notification has a null id.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
}

impl Message {
    pub(crate) fn read(line: &[u8]) -> Self {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return Self::Invalid {
                code: -32700,
                reason: "not JSON",
            };
        };
        let method = message.get("method").and_then(Value::as_str);
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        match (method.map(str::to_owned), message.get("id")) {
            (Some(method), Some(id)) if !id.is_null() => Self::Request(Request {
                id: id.clone(),
                method,
                params,
            }),
            (Some(method), None) => Self::Notification { method, params },
            (None, Some(_)) => Self::Response(message),
            _ => Self::Invalid {
                code: -32600,
                reason: "neither a request, a notification nor a response",
            },
        }
    }
}

impl Request {
    pub(crate) fn notification(method: &str, params: &Value) -> Self {
        Self {
            id: Value::Null,
            method: method.to_owned(),
            params: params.clone(),
        }
    }

    pub(crate) fn subject(&self) -> Option<&str> {
        subject(&self.params)
    }

    pub(crate) fn argument(&self, name: &str) -> Option<&Value> {
        self.params.get("arguments")?.get(name)
    }

    pub(crate) fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }

    pub(crate) fn progress_token(&self) -> Option<&Value> {
        self.meta("progressToken")
    }
}

/// The subject of a message: the name of its tool or prompt, the URI of its resource, or its task
/// id.
pub(crate) fn subject(params: &Value) -> Option<&str> {
    params
        .get("name")
        .or_else(|| params.get("uri"))
        .or_else(|| params.get("taskId"))
        .and_then(Value::as_str)
}

pub(crate) fn result_line(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

pub(crate) fn error_line(id: &Value, code: i64, message: &str, data: Option<&Value>) -> String {
    let mut error = json!({"code": code, "message": message});
    if let (Some(error), Some(data)) = (error.as_object_mut(), data) {
        error.insert("data".to_owned(), data.clone());
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}
