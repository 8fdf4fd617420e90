//! What a server asks of us while a session is open (legacy era).
//!
//! A ping is answered on the spot; what needs somebody is handed over to the [`Interaction`] seam,
//! a bounded number at a time; what was not offered is refused as the protocol prescribes.
//!
//! [`Interaction`]: crate::interact::Interaction

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::SessionContext;
use super::peer::Voice;
use crate::event::Event;
use crate::interact::{self, Elicitation, Offers, Root, Sampling, TooMany, Turnstile};
use crate::mcp::{ErrorObject, Json};
use crate::sync::lock;
use crate::wire::{RequestId, decode, encode};

pub(super) struct Inbound {
    tasks: TaskTracker,
    most: usize,
    /// The requests being worked on, by the text of their id.
    open: Mutex<HashMap<String, CancellationToken>>,
}

/// What servers may ask somebody for.
#[derive(Clone, Copy)]
pub(super) enum Topic {
    Roots,
    Sample,
    Elicit,
}

impl Topic {
    /// What a server asks for by this method, if that is offered to it.
    pub(super) fn of(method: &str, offers: Offers) -> Option<Self> {
        match method {
            "roots/list" if offers.roots => Some(Self::Roots),
            "sampling/createMessage" if offers.sampling => Some(Self::Sample),
            "elicitation/create" if offers.elicitation || offers.elicitation_url => {
                Some(Self::Elicit)
            }
            _ => None,
        }
    }
}

/// A request of a server that was read and found fit to be put to somebody.
pub(super) enum Question<'a> {
    Roots,
    Sample(Sampling<'a>),
    Elicit(Elicitation<'a>),
}

impl Inbound {
    pub(super) fn new(tasks: TaskTracker, most: usize) -> Self {
        Self {
            tasks,
            most,
            open: Mutex::default(),
        }
    }

    fn admit(&self, id: &RequestId, stop: &CancellationToken) -> Option<CancellationToken> {
        let mut open = lock(&self.open);
        if open.len() >= self.most || open.contains_key(id.as_json()) {
            return None;
        }
        // Over with the session, whichever of the two begins first.
        let cancel = stop.child_token();
        open.insert(id.as_json().to_owned(), cancel.clone());
        Some(cancel)
    }

    /// Does something on behalf of the server that ends by itself.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    pub(super) fn done(&self, id: &RequestId) {
        lock(&self.open).remove(id.as_json());
    }

    /// The server no longer wants to know.
    pub(super) fn cancel(&self, params: &[u8]) {
        let cancelled = decode::cancelled(params).and_then(|id| lock(&self.open).get(&id).cloned());
        // It counts until it is done: whoever takes everything back at once gets no further turns.
        if let Some(cancel) = cancelled {
            cancel.cancel();
        }
    }
}

/// Takes a request of the server.
pub(super) fn take<V: Voice>(voice: &Arc<V>, id: RequestId, method: &str, params: &[u8]) {
    let peer = voice.peer();
    let offers = peer.context.offers();
    if method == "ping" {
        return reply(voice, &id, Ok(&json!({})));
    }
    let Some(topic) = Topic::of(method, offers) else {
        let text = format!("{method} is not offered by this client");
        let refusal = ErrorObject::new(ErrorObject::METHOD_NOT_FOUND, text);
        return reply(voice, &id, Err(&refusal));
    };
    let Some(params) = std::str::from_utf8(params)
        .ok()
        .and_then(|text| Json::parse(text).ok())
    else {
        let refusal = ErrorObject::new(ErrorObject::INVALID_PARAMS, "params are not JSON");
        return reply(voice, &id, Err(&refusal));
    };
    let Some(cancel) = peer.inbound.admit(&id, &peer.stop) else {
        let text = format!("more than {} requests at a time", peer.inbound.most);
        let refusal = ErrorObject::new(ErrorObject::INTERNAL, text);
        return reply(voice, &id, Err(&refusal));
    };
    let speaker = Arc::clone(voice);
    peer.inbound.tasks.spawn(async move {
        let peer = speaker.peer();
        let thinking = peer.life.think();
        let answer = cancel
            .run_until_cancelled(async {
                match read(&peer.context, topic, &params) {
                    Ok(question) => ask(&peer.context, question).await,
                    Err(refusal) => {
                        let server = &peer.context.server;
                        tracing::warn!(%server, why = refusal.message, "what it asks is refused");
                        Err(refusal)
                    }
                }
            })
            .await;
        drop(thinking);
        peer.inbound.done(&id);
        if let Some(answer) = answer {
            reply(&speaker, &id, answer.as_ref());
        }
    });
}

/// Reads what a server asks; what it may not ask in this way is refused.
pub(super) fn read<'a>(
    context: &'a SessionContext,
    topic: Topic,
    params: &Json,
) -> Result<Question<'a>, ErrorObject> {
    let (server, offers) = (&context.server, context.offers());
    let redactor = &context.redactor;
    match topic {
        Topic::Roots => Ok(Question::Roots),
        Topic::Sample => {
            let most_tokens = u64::try_from(context.limits.sampling_tokens).unwrap_or(u64::MAX);
            let masked = redactor.redact_json(params.clone()).ok_or_else(|| {
                ErrorObject::new(ErrorObject::INVALID_PARAMS, "params cannot be read")
            })?;
            Sampling::read(server, &masked, offers, most_tokens).map(Question::Sample)
        }
        Topic::Elicit => Elicitation::read(server, params, offers, redactor).map(Question::Elicit),
    }
}

/// Asks whoever can be asked, when it is this question's turn.
pub(super) async fn ask(
    context: &SessionContext,
    question: Question<'_>,
) -> Result<Value, ErrorObject> {
    let SessionContext {
        server,
        interaction,
        turns,
        ..
    } = context;
    match question {
        Question::Roots => {
            let mut roots = interaction.roots(server).await;
            roots.retain(|root| is_fit(root, context));
            Ok(json!({ "roots": roots }))
        }
        Question::Sample(request) => {
            let turnstile = &turns.samplings;
            let Ok(_turn) = turnstile.pass().await.inspect_err(|too_many| {
                tell(context, "sampling/createMessage", turnstile, *too_many);
            }) else {
                let text = format!(
                    "more than {} completions a minute (limit `samplings_per_minute`)",
                    turnstile.per_minute
                );
                return Err(ErrorObject::new(ErrorObject::INTERNAL, text));
            };
            interaction.sample(request).await
        }
        Question::Elicit(question) => {
            let turnstile = &turns.questions;
            let Ok(_turn) = turnstile.pass().await.inspect_err(|too_many| {
                tell(context, "elicitation/create", turnstile, *too_many);
            }) else {
                return Ok(interact::cancelled());
            };
            let mode = question.mode.clone();
            let answer = interaction.elicit(question).await;
            Ok(answer.into_result(&mode, server))
        }
    }
}

/// Tells that a server asks too often, once for a row of requests.
fn tell(context: &SessionContext, method: &str, turnstile: &Turnstile, too_many: TooMany) {
    if !too_many.is_first {
        return;
    }
    let (server, per_minute) = (&context.server, turnstile.per_minute);
    tracing::warn!(%server, method, per_minute, "the server asks too often: nobody is asked");
    context.events.send(|| Event::RequestsLimited {
        server: server.clone(),
        method: method.to_owned(),
        per_minute,
    });
}

fn is_fit(root: &Root, context: &SessionContext) -> bool {
    let is_valid = root.is_valid();
    if !is_valid {
        let (server, uri) = (&context.server, &root.uri);
        tracing::warn!(%server, uri, "not a `file://` URI: the server is not told of this root");
    }
    is_valid
}

fn reply<V: Voice>(voice: &Arc<V>, id: &RequestId, answer: Result<&Value, &ErrorObject>) {
    voice.say(encode::answer(id, answer));
}
