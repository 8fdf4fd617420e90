//! Calls that a server rejects with error -32042 until the user has visited URLs (2025-11-25).
//!
//! This module asks the user to visit each URL, and waits until the server reports completion or a
//! timeout passes. Then the caller of this module sends the call again. Invariant: a call is sent
//! again only if the user agreed to visit all URLs. Error -32042 says that the server did not
//! execute the call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::Session;
use super::peer::Peer;
use super::server_requests::{self, ValidatedRequest};
use crate::elicitation::{ElicitMode, Elicitation};
use switchboard_wire::mcp::{Era, ErrorObject};
use switchboard_wire::sync::lock;

/// Maximum number of URLs in one error. With more URLs, the user is not asked and the call fails.
const MAX_URL_ELICITATIONS: usize = 8;

/// The URL elicitations for which calls of this session are waiting.
#[derive(Debug, Default)]
pub(super) struct UrlElicitations(Mutex<Vec<UrlElicitation>>);

#[derive(Clone, Debug)]
struct UrlElicitation {
    /// The server's `elicitationId`.
    id: String,
    /// Notified when the server reports completion. Keeps the notification if it comes before the
    /// wait.
    completed: Arc<Notify>,
}

impl UrlElicitations {
    /// Handles `notifications/elicitation/complete`.
    pub(super) fn complete(&self, params: &[u8]) {
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
        for elicitation in lock(&self.0).iter() {
            if elicitation.id == elicitation_id {
                elicitation.completed.notify_one();
            }
        }
    }

    fn register(&self, ids: impl Iterator<Item = String>) -> Registered<'_> {
        let elicitations: Vec<_> = ids
            .map(|id| UrlElicitation {
                id,
                completed: Arc::default(),
            })
            .collect();
        lock(&self.0).extend(elicitations.iter().cloned());
        Registered {
            session: self,
            elicitations,
        }
    }
}

/// The URL elicitations that one call waits for. Dropping this value removes them from the session.
struct Registered<'a> {
    session: &'a UrlElicitations,
    elicitations: Vec<UrlElicitation>,
}

impl Registered<'_> {
    async fn completed(&self) {
        for elicitation in &self.elicitations {
            elicitation.completed.notified().await;
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let is_ours = |elicitation: &UrlElicitation| {
            self.elicitations
                .iter()
                .any(|ours| Arc::ptr_eq(&ours.completed, &elicitation.completed))
        };
        lock(&self.session.0).retain(|elicitation| !is_ours(elicitation));
    }
}

impl Session {
    /// Asks the user to visit the URLs that an error names, then waits at most `max_wait` for the
    /// server to report completion. Returns the duration of the question and the wait together.
    /// Returns `None` if the call must not be sent again: the user declined, the session ended, the
    /// session does not support URL elicitation, or the error is not a valid -32042 error.
    pub async fn complete_url_elicitations(
        &self,
        error: &ErrorObject,
        max_wait: Duration,
    ) -> Option<Duration> {
        let peer = self
            .peer()
            .filter(|_| error.code == ErrorObject::URL_ELICITATION_REQUIRED)?;
        let started_at = Instant::now();
        tokio::select! {
            biased;
            _ = self.ended() => None,
            agreed = ask_user(peer, error, max_wait) => agreed.map(|()| started_at.elapsed()),
        }
    }
}

async fn ask_user(peer: &Peer, error: &ErrorObject, max_wait: Duration) -> Option<()> {
    let is_legacy = peer.version()?.era() == Era::Legacy;
    if !is_legacy || !peer.context.client_capabilities().elicitation_url {
        return None;
    }
    let requests = parse(peer, error)?;
    let ids = requests.iter().filter_map(elicitation_id);
    // Register the ids before asking: the server may report completion before the user answers.
    let registered = peer.url_elicitations.register(ids.map(str::to_owned));
    for request in requests {
        let request = ValidatedRequest::Elicit(request);
        let answer = server_requests::answer(&peer.context, request).await;
        let is_accepted = answer.is_ok_and(|answer| answer.get("action") == Some(&"accept".into()));
        if !is_accepted {
            return None;
        }
    }
    let _ = timeout(max_wait, registered.completed()).await;
    Some(())
}

/// Parses the elicitations in the data of an error. Returns `None` if there are none or too many,
/// or if one of them is invalid or has no id.
fn parse<'a>(peer: &'a Peer, error: &ErrorObject) -> Option<Vec<Elicitation<'a>>> {
    #[derive(Deserialize)]
    struct Data {
        elicitations: Vec<Box<RawValue>>,
    }
    let data = error.data.as_ref()?;
    let Data { elicitations } = serde_json::from_str(data.as_str()).ok()?;
    if elicitations.is_empty() || elicitations.len() > MAX_URL_ELICITATIONS {
        return None;
    }
    let (server, redactor) = (&peer.context.server, &peer.context.redactor);
    let capabilities = peer.context.client_capabilities();
    let parsed = elicitations.into_iter().map(|raw| {
        let request =
            Elicitation::parse_redacted(server, &raw.into(), capabilities, redactor).ok()?;
        elicitation_id(&request).is_some().then_some(request)
    });
    parsed.collect()
}

fn elicitation_id<'a>(request: &'a Elicitation<'_>) -> Option<&'a str> {
    match &request.mode {
        ElicitMode::Url(url) => url.elicitation_id.as_deref(),
        ElicitMode::Form(_) => None,
    }
}
