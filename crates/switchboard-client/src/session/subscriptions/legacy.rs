//! Subscriptions of the legacy era: `resources/subscribe` and `resources/unsubscribe` per URI.
//!
//! Invariants: at most one request per URI is in flight, so that the last request decides whether
//! the server sends updates. A request without a response does not block those for other URIs,
//! unless [`MAX_IN_FLIGHT`] requests wait for responses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::{Acceptance, SUBSCRIBE_TIMEOUT, Subscriptions, Uris};
use crate::session::query::Query;
use crate::session::{Deadline, Session};

/// Maximum number of subscribe and unsubscribe requests in flight.
const MAX_IN_FLIGHT: usize = 16;
/// How long an unsubscribe request may take. Short, because its result does not matter.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

struct FinishedRequest {
    uri: Arc<str>,
    /// Whether the server now sends updates of the resource.
    is_subscribed: bool,
}

enum Wake {
    Changed,
    Finished(FinishedRequest),
}

struct SubscriptionTask<'a> {
    session: &'a Session,
    subscriptions: &'a Subscriptions,
    /// URIs of which the server sends updates.
    subscribed: Uris,
    /// URIs for which a subscribe or unsubscribe request is in flight.
    in_flight_uris: Uris,
    in_flight: FuturesUnordered<BoxFuture<'a, FinishedRequest>>,
    /// URIs for which a request may have to be sent, in the order in which to send the requests.
    out_of_sync: VecDeque<Arc<str>>,
}

pub(super) async fn run(session: &Session, subscriptions: &Subscriptions) {
    let mut task = SubscriptionTask {
        session,
        subscriptions,
        subscribed: Uris::new(),
        in_flight_uris: Uris::new(),
        in_flight: FuturesUnordered::new(),
        out_of_sync: VecDeque::new(),
    };
    loop {
        let wake = tokio::select! {
            biased;
            Some(finished) = task.in_flight.next() => Wake::Finished(finished),
            () = subscriptions.changed.notified() => Wake::Changed,
        };
        match wake {
            Wake::Changed => task.compare(),
            Wake::Finished(finished) => task.finish(finished),
        }
        task.start_requests();
    }
}

impl SubscriptionTask<'_> {
    /// Compares the URIs that are subscribed at the server with those that callers want, and sets
    /// `out_of_sync` to the differences.
    fn compare(&mut self) {
        let wanted = self.subscriptions.wanted_uris();
        for uri in self.subscribed.intersection(&wanted) {
            // If this URI is pending, its last subscription was dropped and a new one was added
            // before an unsubscribe request was sent.
            if !self.in_flight_uris.contains(uri) {
                self.subscriptions.resolve_pending(uri, Acceptance::Active);
            }
        }
        let out_of_sync = self.subscribed.symmetric_difference(&wanted);
        // A URI with a request in flight is compared again in `finish`.
        let out_of_sync = out_of_sync.filter(|uri| !self.in_flight_uris.contains(*uri));
        self.out_of_sync = out_of_sync.cloned().collect();
    }

    fn finish(&mut self, FinishedRequest { uri, is_subscribed }: FinishedRequest) {
        self.in_flight_uris.remove(&uri);
        if is_subscribed {
            self.subscribed.insert(Arc::clone(&uri));
        } else {
            self.subscribed.remove(&uri);
        }
        // Callers may have subscribed or unsubscribed during the request.
        self.out_of_sync.push_back(uri);
    }

    /// Sends requests for the URIs in `out_of_sync`, until [`MAX_IN_FLIGHT`] are in flight.
    fn start_requests(&mut self) {
        while self.in_flight.len() < MAX_IN_FLIGHT
            && let Some(uri) = self.out_of_sync.pop_front()
        {
            if self.in_flight_uris.contains(&uri) {
                continue;
            }
            let is_subscribed = self.subscribed.contains(&uri);
            let request = match (is_subscribed, self.subscriptions.wants(&uri)) {
                (false, true) => {
                    subscribe(self.session, self.subscriptions, Arc::clone(&uri)).boxed()
                }
                (true, false) => unsubscribe(self.session, Arc::clone(&uri)).boxed(),
                _ => continue,
            };
            self.in_flight_uris.insert(uri);
            self.in_flight.push(request);
        }
    }
}

async fn subscribe(
    session: &Session,
    subscriptions: &Subscriptions,
    uri: Arc<str>,
) -> FinishedRequest {
    let deadline = Deadline::after(SUBSCRIBE_TIMEOUT);
    let query = Query::new("resources/subscribe", deadline).with_subject("uri", &uri);
    let result = session.query(&query).await;
    let is_subscribed = result.is_ok();
    let acceptance = match result {
        Ok(_) => Acceptance::Active,
        Err(error) => Acceptance::Rejected(error.to_string().into()),
    };
    subscriptions.resolve_pending(&uri, acceptance);
    FinishedRequest { uri, is_subscribed }
}

async fn unsubscribe(session: &Session, uri: Arc<str>) -> FinishedRequest {
    let deadline = Deadline::after(UNSUBSCRIBE_TIMEOUT);
    let query = Query::new("resources/unsubscribe", deadline).with_subject("uri", &uri);
    if let Err(error) = session.query(&query).await {
        tracing::debug!(%uri, %error, "unsubscribe failed");
    }
    FinishedRequest {
        uri,
        is_subscribed: false,
    }
}
