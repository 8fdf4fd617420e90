//! Calls that take several rounds: the server asks for something, and the call is sent again with
//! the answers (modern era).
//!
//! Every round is a request of its own, with its own id; what belongs to a call travels with it and
//! is seen by no other. The time that people take is not counted, and only this call waits for them.
//!
//! Invariant: a call that has had a round is never *not sent*: its server knows of it.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::inbound::{self, Topic};
use super::peer::Peer;
use super::{Delivery, Failed, Patience, RequestError, Session, ToolRequest};
use crate::interact::BoxFuture;
use crate::mcp::{CallToolResult, Era, ErrorObject};
use crate::wire::Problem;
use crate::wire::decode::{InputRequest, InputRequired};
use crate::wire::encode::Round;

/// How long a server that asks for nothing, but wants to be asked again, is left alone; longer from
/// round to round.
const BREATHER: Duration = Duration::from_millis(250);
/// How much of a method's name is shown.
const SHOWN: usize = 64;

/// Answers what the server asked, and sends the call again, which may bring another question.
pub(super) fn go_on<'a>(
    session: &'a Session,
    request: &'a ToolRequest<'a>,
    asked: Box<InputRequired>,
) -> BoxFuture<'a, Result<CallToolResult, RequestError>> {
    Box::pin(async move {
        let (round, patience) = next(session, request.round, request.patience, asked).await?;
        let next = ToolRequest {
            patience,
            progress: request.progress.clone(),
            round: Some(&round),
            ..*request
        };
        session.call_tool(&next).await.map_err(known_to_the_server)
    })
}

/// The round that follows `last`, with what the server asked for, and how much patience is left.
pub(super) async fn next(
    session: &Session,
    last: Option<&Round>,
    patience: Patience,
    asked: Box<InputRequired>,
) -> Result<(Round, Patience), RequestError> {
    let Some(peer) = session.peer() else {
        return Err(malformed("a server in this process cannot ask in this way"));
    };
    let is_modern = peer
        .version()
        .is_some_and(|version| version.era() == Era::Modern);
    if !is_modern {
        return Err(malformed("it asks for input, which its version cannot do"));
    }
    let limit = peer.context.limits.input_rounds;
    let number = last.map_or(1, |round| round.number + 1);
    if number > limit {
        return Err(RequestError::Unusable(Problem::TooManyRounds { limit }));
    }
    let began = Instant::now();
    let is_question = !asked.requests.is_empty();
    let round = tokio::select! {
        biased;
        end = session.ended() => {
            let delivery = Delivery::Unknown;
            return Err(RequestError::Lost { delivery, end });
        }
        round = answer(peer, *asked, number) => round?,
    };
    let thought = if is_question {
        began.elapsed()
    } else {
        Duration::ZERO
    };
    Ok((round, patience.without(thought)))
}

/// What follows from what was asked in one round.
async fn answer(peer: &Peer, asked: InputRequired, number: usize) -> Result<Round, RequestError> {
    if asked.requests.is_empty() {
        let longer = u32::try_from(number).unwrap_or(u32::MAX);
        tokio::time::sleep(BREATHER.saturating_mul(longer)).await;
    }
    Ok(Round {
        number,
        responses: answers(peer, asked.requests).await?,
        state: asked.state,
    })
}

/// Has all questions answered, one after the other: people read them.
pub(super) async fn answers(
    peer: &Peer,
    requests: Vec<InputRequest>,
) -> Result<Map<String, Value>, RequestError> {
    let offers = peer.context.offers();
    let mut questions = Vec::with_capacity(requests.len());
    for request in requests {
        // Before anybody is asked: what cannot be answered in full is not sent.
        let Some(topic) = Topic::of(&request.method, offers) else {
            let method: String = request.method.chars().take(SHOWN).collect();
            return Err(malformed(format!(
                "it asks for `{method}`, which is not offered to servers here"
            )));
        };
        let InputRequest { key, params, .. } = request;
        let question = inbound::read(&peer.context, topic, &params).map_err(refused)?;
        questions.push((key, question));
    }
    let mut responses = Map::with_capacity(questions.len());
    for (key, question) in questions {
        let answer = inbound::ask(&peer.context, question).await;
        let answer = answer.map_err(refused)?;
        responses.insert(key, answer);
    }
    Ok(responses)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn refused(error: ErrorObject) -> RequestError {
    malformed(format!("what it asks for was refused: {error}"))
}

pub(super) fn malformed(what: impl Into<String>) -> RequestError {
    RequestError::Unusable(Problem::Malformed(what.into()))
}

/// A later round that was not sent belongs to a call that the server knows of.
pub(super) fn known_to_the_server(error: RequestError) -> RequestError {
    let delivery = Delivery::Unknown;
    match error {
        RequestError::Lost {
            delivery: Delivery::NotSent,
            end,
        } => RequestError::Lost { delivery, end },
        RequestError::TimedOut {
            delivery: Delivery::NotSent,
            after,
            idle,
            misaddressed,
        } => RequestError::TimedOut {
            delivery,
            after,
            idle,
            misaddressed,
        },
        RequestError::Failed(failed) if failed.delivery == Delivery::NotSent => {
            RequestError::Failed(Failed { delivery, ..failed })
        }
        RequestError::Congested { .. }
        | RequestError::NoRoom { .. }
        | RequestError::TooLong { .. } => RequestError::Failed(Failed::unknown(format!(
            "the answers to its questions could not be sent: {error}"
        ))),
        other => other,
    }
}
