//! Answers the requests that a legacy server sends during a session.
//!
//! `ping` is answered immediately. Elicitation, sampling and roots requests are parsed, validated
//! and passed to the [`ClientHandler`]; at most `inbound_requests` are in flight, and more are
//! rejected. Requests for capabilities that the client did not announce are rejected, too.
//!
//! The same validation and handler answer the input requests of modern servers.
//!
//! [`ClientHandler`]: crate::client_handler::ClientHandler

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::SessionContext;
use super::peer::JsonRpcSession;
use crate::elicitation::{self, Elicitation};
use crate::question_limit::{LimitReached, QuestionLimiter};
use crate::roots::Root;
use crate::sampling::SamplingRequest;
use switchboard_wire::jsonrpc::RequestId;
use switchboard_wire::mcp::{ClientCapabilities, ErrorObject, Json};
use switchboard_wire::sync::lock;
use switchboard_wire::{decode, encode};

/// The requests of the server that the client handler is answering.
pub(super) struct ServerRequests {
    tasks: TaskTracker,
    max_in_flight: usize,
    /// One entry per request in flight. The key is the JSON text of the request id; the token
    /// cancels the work on the answer.
    in_flight: Mutex<HashMap<String, CancellationToken>>,
}

/// The kinds of requests that the [`ClientHandler`](crate::client_handler::ClientHandler) answers.
#[derive(Clone, Copy)]
pub(super) enum ServerRequestKind {
    Roots,
    Sample,
    Elicit,
}

impl ServerRequestKind {
    /// The kind of a method. `None` if the method is unknown or the client did not announce the
    /// capability for it.
    pub(super) fn of(method: &str, capabilities: ClientCapabilities) -> Option<Self> {
        match method {
            "roots/list" if capabilities.roots => Some(Self::Roots),
            "sampling/createMessage" if capabilities.sampling => Some(Self::Sample),
            "elicitation/create" if capabilities.elicitation || capabilities.elicitation_url => {
                Some(Self::Elicit)
            }
            _ => None,
        }
    }
}

/// A request whose params were parsed and validated.
pub(super) enum ValidatedRequest<'a> {
    Roots,
    Sample(SamplingRequest<'a>),
    Elicit(Elicitation<'a>),
}

impl ServerRequests {
    pub(super) fn new(tasks: TaskTracker, max_in_flight: usize) -> Self {
        Self {
            tasks,
            max_in_flight,
            in_flight: Mutex::default(),
        }
    }

    /// Registers a request and returns the token that cancels it. Returns `None` if
    /// `max_in_flight` requests are in flight, or one of them has the same id.
    fn try_start(&self, id: &RequestId, stop: &CancellationToken) -> Option<CancellationToken> {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.len() >= self.max_in_flight || in_flight.contains_key(id.as_json()) {
            return None;
        }
        // A child of the session's token: the end of the session also cancels the request.
        let cancel = stop.child_token();
        in_flight.insert(id.as_json().to_owned(), cancel.clone());
        Some(cancel)
    }

    /// Spawns a task that the task tracker of the session tracks.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    fn finish(&self, id: &RequestId) {
        lock(&self.in_flight).remove(id.as_json());
    }

    /// Handles `notifications/cancelled`. A cancelled request counts as in flight until its task
    /// has ended. Otherwise a server could exceed `max_in_flight` by cancelling requests.
    pub(super) fn cancel(&self, params: &[u8]) {
        let id = decode::cancelled_id(params);
        let cancelled = id.and_then(|id| lock(&self.in_flight).get(&id).cloned());
        if let Some(cancel) = cancelled {
            cancel.cancel();
        }
    }
}

/// Handles a request of the server. Responds immediately to `ping`, and to requests that are
/// unsupported, not JSON or too many. A new task validates and answers all other requests.
pub(super) fn handle<S: JsonRpcSession>(
    session: &Arc<S>,
    id: RequestId,
    method: &str,
    params: &[u8],
) {
    let peer = session.peer();
    if method == "ping" {
        return respond(session, &id, Ok(&json!({})));
    }
    let Some(kind) = ServerRequestKind::of(method, peer.context.client_capabilities()) else {
        let message = format!("this client does not support {method}");
        let error = ErrorObject::new(ErrorObject::METHOD_NOT_FOUND, message);
        return respond(session, &id, Err(&error));
    };
    let Some(params) = std::str::from_utf8(params)
        .ok()
        .and_then(|text| Json::parse(text).ok())
    else {
        let error = ErrorObject::new(ErrorObject::INVALID_PARAMS, "params are not JSON");
        return respond(session, &id, Err(&error));
    };
    let Some(cancel) = peer.server_requests.try_start(&id, &peer.stop) else {
        let max = peer.server_requests.max_in_flight;
        let message = format!("more than {max} requests in flight");
        let error = ErrorObject::new(ErrorObject::INTERNAL, message);
        return respond(session, &id, Err(&error));
    };
    let responder = Arc::clone(session);
    peer.server_requests.tasks.spawn(async move {
        let peer = responder.peer();
        let clock_pause = peer.clock.pause();
        let answer = async {
            match validate(&peer.context, kind, &params) {
                Ok(request) => answer(&peer.context, request).await,
                Err(error) => {
                    let server = &peer.context.server;
                    tracing::warn!(%server, error = error.message, "server request rejected");
                    Err(error)
                }
            }
        };
        let response = cancel.run_until_cancelled(answer).await;
        drop(clock_pause);
        peer.server_requests.finish(&id);
        if let Some(response) = response {
            respond(&responder, &id, response.as_ref());
        }
    });
}

/// Parses and validates the params of a request. Masks secrets in them.
pub(super) fn validate<'a>(
    context: &'a SessionContext,
    kind: ServerRequestKind,
    params: &Json,
) -> Result<ValidatedRequest<'a>, ErrorObject> {
    let (server, capabilities) = (&context.server, context.client_capabilities());
    let redactor = &context.redactor;
    match kind {
        ServerRequestKind::Roots => Ok(ValidatedRequest::Roots),
        ServerRequestKind::Sample => {
            let max_tokens = u64::try_from(context.limits.sampling_tokens).unwrap_or(u64::MAX);
            let masked = redactor.redact_json(params.clone()).ok_or_else(|| {
                ErrorObject::new(ErrorObject::INVALID_PARAMS, "params cannot be parsed")
            })?;
            SamplingRequest::parse(server, &masked, capabilities, max_tokens)
                .map(ValidatedRequest::Sample)
        }
        ServerRequestKind::Elicit => {
            Elicitation::parse_redacted(server, params, capabilities, redactor)
                .map(ValidatedRequest::Elicit)
        }
    }
}

/// Passes a request to the handler. If the server exceeds its rate limit, a sampling request fails
/// and an elicitation is answered with *cancel*.
pub(super) async fn answer(
    context: &SessionContext,
    request: ValidatedRequest<'_>,
) -> Result<Value, ErrorObject> {
    let SessionContext {
        server,
        handler,
        question_limits,
        ..
    } = context;
    match request {
        ValidatedRequest::Roots => {
            let mut roots = handler.roots().await;
            roots.retain(|root| is_valid_root(root, context));
            Ok(json!({ "roots": roots }))
        }
        ValidatedRequest::Sample(request) => {
            let limit = &question_limits.sampling;
            let Ok(_permit) = limit.acquire().await.inspect_err(|reached| {
                report_limit(context, "sampling/createMessage", limit, *reached);
            }) else {
                let message = format!(
                    "more than {} sampling requests per minute (limit `samplingsPerMinute`)",
                    limit.per_minute
                );
                return Err(ErrorObject::new(ErrorObject::INTERNAL, message));
            };
            handler.sample(request).await
        }
        ValidatedRequest::Elicit(request) => {
            let limit = &question_limits.elicitation;
            let Ok(_permit) = limit.acquire().await.inspect_err(|reached| {
                report_limit(context, "elicitation/create", limit, *reached);
            }) else {
                return Ok(elicitation::cancel_result());
            };
            let mode = request.mode.clone();
            let answer = handler.elicit(request).await;
            Ok(answer.into_result(&mode, server))
        }
    }
}

/// Reports that a server exceeds a rate limit. Does nothing if the previous request was rejected,
/// too, so that a series of rejected requests is reported once.
fn report_limit(
    context: &SessionContext,
    method: &'static str,
    limit: &QuestionLimiter,
    reached: LimitReached,
) {
    if !reached.is_first {
        return;
    }
    let (server, per_minute) = (&context.server, limit.per_minute);
    tracing::warn!(%server, method, per_minute, "too many requests from the server");
    context.handler.on_requests_limited(method, per_minute);
}

fn is_valid_root(root: &Root, context: &SessionContext) -> bool {
    let is_valid = root.is_valid();
    if !is_valid {
        let (server, uri) = (&context.server, &root.uri);
        tracing::warn!(%server, uri, "root not sent: it is not a local `file://` URI");
    }
    is_valid
}

fn respond<S: JsonRpcSession>(
    session: &Arc<S>,
    id: &RequestId,
    result: Result<&Value, &ErrorObject>,
) {
    session.send_notification(encode::response(id, result));
}
