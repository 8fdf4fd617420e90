//! Calls that a server refuses until the user has been to an address (2025-11-25).
//!
//! Such a call was not carried out, so that it may be sent once more. The user is asked in the same
//! way as ever; when the server says that it is satisfied, or after a bounded time, the call goes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::Session;
use super::inbound::{self, Question};
use super::peer::Peer;
use crate::interact::{ElicitMode, Elicitation};
use crate::mcp::{Era, ErrorObject};
use crate::sync::lock;

/// More addresses at a time than this nobody visits.
const MOST_VISITS: usize = 8;

/// The visits that calls wait for.
#[derive(Debug, Default)]
pub(super) struct Visits(Mutex<Vec<Visit>>);

#[derive(Clone, Debug)]
struct Visit {
    /// The server's name for it.
    id: String,
    /// Holds a permit once the server has said that it is over.
    over: Arc<Notify>,
}

impl Visits {
    /// The server says that a visit is over. One that nobody waits for is not looked at.
    pub(super) fn end(&self, params: &[u8]) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            elicitation_id: String,
        }
        if lock(&self.0).is_empty() {
            return;
        }
        let Ok(Params { elicitation_id }) = serde_json::from_slice(params) else {
            return;
        };
        for visit in lock(&self.0).iter() {
            if visit.id == elicitation_id {
                visit.over.notify_one();
            }
        }
    }

    fn begin(&self, ids: Vec<String>) -> Waiting<'_> {
        let made = ids.into_iter().map(|id| Visit {
            id,
            over: Arc::default(),
        });
        let made: Vec<_> = made.collect();
        lock(&self.0).extend(made.iter().cloned());
        Waiting { visits: self, made }
    }
}

/// The visits that one call waits for.
struct Waiting<'a> {
    visits: &'a Visits,
    made: Vec<Visit>,
}

impl Waiting<'_> {
    async fn over(&self) {
        for visit in &self.made {
            visit.over.notified().await;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let is_ours = |visit: &Visit| {
            self.made
                .iter()
                .any(|made| Arc::ptr_eq(&made.over, &visit.over))
        };
        lock(&self.visits.0).retain(|visit| !is_ours(visit));
    }
}

impl Session {
    /// Has the user visit what a refusal wants them to, if it does. Says how long that took when
    /// they agreed to all of it: then the call may be sent once more.
    pub(crate) async fn visit(&self, refusal: &ErrorObject, longest: Duration) -> Option<Duration> {
        let peer = self
            .peer()
            .filter(|_| refusal.code == ErrorObject::VISIT_REQUIRED)?;
        let began = Instant::now();
        tokio::select! {
            biased;
            _ = self.ended() => None,
            agreed = visit_all(peer, refusal, longest) => agreed.map(|()| began.elapsed()),
        }
    }
}

async fn visit_all(peer: &Peer, refusal: &ErrorObject, longest: Duration) -> Option<()> {
    let is_legacy = peer.version()?.era() == Era::Legacy;
    if !is_legacy || !peer.context.offers().elicitation_url {
        return None;
    }
    let questions = read(peer, refusal)?;
    let ids = questions.iter().filter_map(id).map(str::to_owned);
    // Before anybody is asked: the server may be satisfied sooner than the user is done.
    let waiting = peer.visits.begin(ids.collect());
    for question in questions {
        let answer = inbound::ask(&peer.context, Question::Elicit(question)).await;
        let is_accepted = answer.is_ok_and(|answer| answer.get("action") == Some(&"accept".into()));
        if !is_accepted {
            return None;
        }
    }
    let _ = timeout(longest, waiting.over()).await;
    Some(())
}

/// The visits that a refusal asks for, if it can be read and asks for nothing else.
fn read<'a>(peer: &'a Peer, refusal: &ErrorObject) -> Option<Vec<Elicitation<'a>>> {
    #[derive(Deserialize)]
    struct Data {
        elicitations: Vec<Box<RawValue>>,
    }
    let data = refusal.data.as_ref()?;
    let Data { elicitations } = serde_json::from_str(data.as_str()).ok()?;
    if elicitations.is_empty() || elicitations.len() > MOST_VISITS {
        return None;
    }
    let (server, redactor) = (&peer.context.server, &peer.context.redactor);
    let offers = peer.context.offers();
    let read = elicitations.into_iter().map(|written| {
        let question = Elicitation::read(server, &written.into(), offers, redactor).ok()?;
        id(&question).is_some().then_some(question)
    });
    read.collect()
}

fn id<'a>(question: &'a Elicitation<'_>) -> Option<&'a str> {
    match &question.mode {
        ElicitMode::Url(address) => address.elicitation_id.as_deref(),
        ElicitMode::Form(_) => None,
    }
}
