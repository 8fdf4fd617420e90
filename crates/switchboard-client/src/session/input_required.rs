//! Answers `input_required` results and repeats the request with the answers (modern era).
//!
//! In each round, the client answers the input requests of one result and sends the request again
//! under a new id. The time that the user takes does not count against the deadline of the request.
//! Other requests go on meanwhile.
//!
//! Invariant: a call that had a round never fails as *not sent*, because the server received its
//! first request.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::peer::Peer;
use super::server_requests::{self, ServerRequestKind};
use super::{Deadline, Delivery, RequestError, Session, SessionEnd, ToolRequest, TransportFailure};
use switchboard_wire::BoxFuture;
use switchboard_wire::decode::{InputRequest, InputRequired};
use switchboard_wire::encode::InputResponses;
use switchboard_wire::jsonrpc::InvalidMessage;
use switchboard_wire::mcp::{CallToolResult, Era, ErrorObject};

/// Delay before a request is repeated if its result contained no input requests. Multiplied by the
/// number of the round, which begins at one.
const EMPTY_ROUND_DELAY: Duration = Duration::from_millis(250);
/// Maximum length of a method name in an error message, in characters.
const MAX_METHOD_CHARS: usize = 64;

/// Answers the input requests and sends the call again, which may lead to another round.
pub(super) fn answer_and_repeat<'a>(
    session: &'a Session,
    request: &'a ToolRequest<'a>,
    input: Box<InputRequired>,
) -> BoxFuture<'a, Result<CallToolResult, RequestError>> {
    Box::pin(async move {
        let (responses, deadline) =
            next_round(session, request.input_responses, request.deadline, input).await?;
        let next = ToolRequest {
            deadline,
            progress: request.progress.clone(),
            input_responses: Some(&responses),
            ..*request
        };
        session.call_tool(&next).await.map_err(never_not_sent)
    })
}

/// Answers the input requests. Returns the answers, and the deadline of the repeated request.
/// `previous` holds the answers of the previous round. Fails after as many rounds as the limit
/// `input_requests` allows.
pub(super) async fn next_round(
    session: &Session,
    previous: Option<&InputResponses>,
    deadline: Deadline,
    input: Box<InputRequired>,
) -> Result<(InputResponses, Deadline), RequestError> {
    let Some(peer) = session.peer() else {
        return Err(invalid_response(
            "an in-process server cannot return `input_required`",
        ));
    };
    if peer.era() != Some(Era::Modern) {
        return Err(invalid_response(
            "it is `input_required`, which its protocol version does not have",
        ));
    }
    let limit = peer.context.limits.input_requests;
    let number = previous.map_or(1, |round| round.number + 1);
    if number > limit {
        let error = InvalidMessage::TooManyInputRequests { limit };
        return Err(RequestError::InvalidResponse(error));
    }
    let started_at = Instant::now();
    let asks_user = !input.requests.is_empty();
    let responses = tokio::select! {
        biased;
        end = session.ended() => {
            let delivery = Delivery::Unknown;
            return Err(RequestError::Lost { delivery, end });
        }
        responses = answer_round(peer, *input, number) => responses?,
    };
    let pause = if asks_user {
        started_at.elapsed()
    } else {
        Duration::ZERO
    };
    Ok((responses, deadline.extended_by(pause)))
}

async fn answer_round(
    peer: &Peer,
    input: InputRequired,
    number: usize,
) -> Result<InputResponses, RequestError> {
    if input.requests.is_empty() {
        let factor = u32::try_from(number).unwrap_or(u32::MAX);
        tokio::time::sleep(EMPTY_ROUND_DELAY.saturating_mul(factor)).await;
    }
    Ok(InputResponses {
        number,
        responses: answer_all(peer, input.requests).await?,
        state: input.state,
    })
}

/// Answers all input requests, one after the other. Validates all of them before it answers the
/// first one, so that the user is not asked in vain.
pub(super) async fn answer_all(
    peer: &Peer,
    requests: Vec<InputRequest>,
) -> Result<Map<String, Value>, RequestError> {
    let capabilities = peer.context.client_capabilities();
    let mut validated = Vec::with_capacity(requests.len());
    for request in requests {
        let Some(kind) = ServerRequestKind::of(&request.method, capabilities) else {
            let method: String = request.method.chars().take(MAX_METHOD_CHARS).collect();
            return Err(invalid_response(format!(
                "it asks for `{method}`, which this client does not support"
            )));
        };
        let InputRequest { key, params, .. } = request;
        let request =
            server_requests::validate(&peer.context, kind, &params).map_err(request_failed)?;
        validated.push((key, request));
    }
    let mut responses = Map::with_capacity(validated.len());
    for (key, request) in validated {
        let answer = server_requests::answer(&peer.context, request).await;
        responses.insert(key, answer.map_err(request_failed)?);
    }
    Ok(responses)
}

#[expect(clippy::needless_pass_by_value, reason = "signature of `map_err`")]
fn request_failed(error: ErrorObject) -> RequestError {
    invalid_response(format!("its input request was rejected: {error}"))
}

pub(super) fn invalid_response(reason: impl Into<String>) -> RequestError {
    RequestError::InvalidResponse(InvalidMessage::Malformed(reason.into()))
}

/// Changes an error of a repeated request so that its delivery is *unknown* instead of *not sent*.
/// The server received the first request of the call and may have acted on it.
pub(super) fn never_not_sent(error: RequestError) -> RequestError {
    let delivery = Delivery::Unknown;
    match error {
        RequestError::Lost {
            delivery: Delivery::NotSent,
            end,
        } => RequestError::Lost { delivery, end },
        RequestError::UnknownSession => RequestError::Lost {
            delivery,
            end: SessionEnd::Expired,
        },
        RequestError::TimedOut {
            delivery: Delivery::NotSent,
            after,
            idle,
            stray,
        } => RequestError::TimedOut {
            delivery,
            after,
            idle,
            stray,
        },
        RequestError::Transport(failure) if failure.delivery == Delivery::NotSent => {
            RequestError::Transport(TransportFailure {
                delivery,
                ..failure
            })
        }
        RequestError::WriteQueueFull { .. }
        | RequestError::MemoryBudgetExceeded { .. }
        | RequestError::TooLong { .. } => RequestError::Transport(TransportFailure::unknown(
            format!("the answers to its input requests could not be sent: {error}"),
        )),
        other => other,
    }
}
