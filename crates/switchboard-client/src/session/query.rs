//! Requests other than `tools/call`: listings, resources, prompts, completion, tasks.
//!
//! Queries are idempotent: a caller may repeat a failed query. A modern server may respond to
//! `resources/read` and `prompts/get` with `input_required`, as it may to a tool call. On any other
//! method `input_required` is a protocol error: the request is not repeated and no question is
//! asked.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::deadline::Deadline;
use super::{RequestError, Session, decode_response, input_required};
use switchboard_wire::decode;
use switchboard_wire::encode::InputResponses;
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult};
use switchboard_wire::mcp::{ErrorObject, GetPromptResult, Json, ReadResourceResult};

/// A request other than `tools/call`: its method, params and deadline.
#[derive(Debug)]
pub struct Query<'a> {
    pub(crate) method: &'a str,
    /// The prompt name, resource URI or task id, which HTTP sessions of the modern era repeat in
    /// the header `Mcp-Name`.
    pub(crate) name: Option<&'a str>,
    pub(crate) params: Map<String, Value>,
    pub(crate) deadline: Deadline,
}

impl<'a> Query<'a> {
    /// Creates a request without params.
    pub fn new(method: &'a str, deadline: Deadline) -> Self {
        Self {
            method,
            name: None,
            params: Map::new(),
            deadline,
        }
    }

    /// Sets all params.
    pub fn with_params(mut self, params: Map<String, Value>) -> Self {
        self.params = params;
        self
    }

    /// Adds a member to the params.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.params.insert(key.to_owned(), value.into());
        self
    }

    /// Adds the param that names the prompt, resource or task. HTTP sessions of the modern era
    /// repeat it in a header.
    pub(crate) fn with_subject(mut self, key: &str, name: &'a str) -> Self {
        self.name = Some(name);
        self.with(key, name)
    }
}

/// Whether requests of this method are dropped without `notifications/cancelled`: true for
/// `tasks/get`, `tasks/update` and `tasks/cancel`. The server answers them immediately, and could
/// mistake the notification for a cancellation of the task itself.
pub(super) fn needs_no_cancel(method: &str) -> bool {
    matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel")
}

/// Whether the protocol allows `input_required` as the result of this method. It also allows it for
/// `tools/call`, which is not a query.
fn may_require_input(method: &str) -> bool {
    matches!(method, "resources/read" | "prompts/get")
}

impl Session {
    /// Sends a query and returns its result. While the server responds with `input_required`, and
    /// the method allows it, answers the input requests and sends the query again. Dropping the
    /// future cancels the request and notifies the server.
    pub(crate) async fn query(&self, query: &Query<'_>) -> Result<RawResult, RequestError> {
        let mut responses: Option<InputResponses> = None;
        let mut deadline = query.deadline;
        loop {
            let result = self.query_once(query, responses.as_ref(), deadline).await?;
            match decode::find_input_required(&result).map_err(RequestError::InvalidResponse)? {
                None => return Ok(result),
                Some(_) if !may_require_input(query.method) => {
                    return Err(input_required::invalid_response(format!(
                        "it is `input_required`, which a server may not send for `{}`",
                        query.method
                    )));
                }
                Some(input) => {
                    let next =
                        input_required::next_round(self, responses.as_ref(), deadline, input);
                    let (next, remaining) = next.await?;
                    responses = Some(next);
                    deadline = remaining;
                }
            }
        }
    }

    /// Sends a query and decodes its result. A large result is decoded on a blocking thread.
    pub async fn query_as<T: Send + 'static>(
        &self,
        query: &Query<'_>,
        decode: impl FnOnce(&RawResult) -> Result<T, InvalidMessage> + Send + 'static,
    ) -> Result<T, RequestError> {
        let result = self.query(query).await?;
        let decoded = decode_response(result, decode).await?;
        decoded.map_err(RequestError::InvalidResponse)
    }

    /// Sends a request of any method once, and returns its result.
    pub async fn raw_query(&self, query: &Query<'_>) -> Result<Json, RequestError> {
        let result = self.query(query).await?;
        result.to_json().map_err(RequestError::InvalidResponse)
    }

    /// Reads a resource, and decodes at most `max_parts` items of its `contents`. `max_parts` does
    /// not apply to in-process servers, which have the limit `contentBlocks`.
    pub async fn read_resource(
        &self,
        uri: &str,
        deadline: Deadline,
        max_parts: usize,
    ) -> Result<ReadResourceResult, RequestError> {
        if let Self::Local(local) = self {
            return local.read_resource(uri, deadline).await;
        }
        let query = Query::new("resources/read", deadline).with_subject("uri", uri);
        let decode = move |result: &RawResult| decode::resource_result(result, max_parts);
        self.query_as(&query, decode).await
    }

    /// Gets a prompt, and decodes at most `max_messages` messages of it. `max_messages` does not
    /// apply to in-process servers, which have the limit `contentBlocks`.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
        deadline: Deadline,
        max_messages: usize,
    ) -> Result<GetPromptResult, RequestError> {
        if let Self::Local(local) = self {
            return local.get_prompt(name, arguments, deadline).await;
        }
        // Sent even without arguments: some servers reject a request without this member.
        let query = Query::new("prompts/get", deadline)
            .with_subject("name", name)
            .with("arguments", as_json_strings(arguments));
        let decode = move |result: &RawResult| decode::prompt_result(result, max_messages);
        self.query_as(&query, decode).await
    }

    async fn query_once(
        &self,
        query: &Query<'_>,
        responses: Option<&InputResponses>,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        match self {
            Self::Line(line) => line.query(query, responses, deadline).await,
            #[cfg(feature = "http")]
            Self::StreamableHttp(http) => Box::pin(http.query(query, responses, deadline)).await,
            #[cfg(feature = "http")]
            Self::Sse2024(sse) => Box::pin(sse.query(query, responses, deadline)).await,
            Self::Local(_) => Err(RequestError::ErrorResponse(ErrorObject::new(
                ErrorObject::METHOD_NOT_FOUND,
                format!("in-process servers do not support {}", query.method),
            ))),
        }
    }
}

fn as_json_strings(arguments: &BTreeMap<String, String>) -> Map<String, Value> {
    let pairs = arguments.iter();
    pairs
        .map(|(name, text)| (name.clone(), Value::from(text.as_str())))
        .collect()
}
