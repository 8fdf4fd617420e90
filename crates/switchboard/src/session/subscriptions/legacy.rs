//! Subscriptions of the legacy era: a request for each resource, and one to take it back.
//!
//! Invariants: of one resource never two requests are under way, so that the server is left with what
//! was wanted last; a request that is not answered holds up no other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::{AGREEING, Acceptance, Subscriptions, Uris};
use crate::session::query::Query;
use crate::session::{Deadline, Session};

/// How many requests are made at a time.
const AT_ONCE: usize = 16;
/// Whether a server heard that nobody wants to know any more is its own affair.
const LEAVING: Duration = Duration::from_secs(5);

/// How a request came to its end.
struct Done {
    uri: Arc<str>,
    /// Whether the server tells of the resource now.
    is_held: bool,
}

/// What the task does next.
enum Wake {
    Changed,
    Done(Done),
}

struct Server<'a> {
    session: &'a Session,
    subscriptions: &'a Subscriptions,
    /// What the server tells of.
    held: Uris,
    /// What a request is under way for.
    busy: Uris,
    under_way: FuturesUnordered<BoxFuture<'a, Done>>,
    /// What was not as it is wanted when that was looked at last, and waits for its turn.
    waiting: VecDeque<Arc<str>>,
}

pub(super) async fn serve(session: &Session, subscriptions: &Subscriptions) {
    let mut server = Server {
        session,
        subscriptions,
        held: Uris::new(),
        busy: Uris::new(),
        under_way: FuturesUnordered::new(),
        waiting: VecDeque::new(),
    };
    loop {
        let wake = tokio::select! {
            biased;
            Some(done) = server.under_way.next() => Wake::Done(done),
            () = subscriptions.changed.notified() => Wake::Changed,
        };
        match wake {
            Wake::Changed => server.look(),
            Wake::Done(done) => server.take(done),
        }
        server.go_on();
    }
}

impl Server<'_> {
    /// Finds out what is not as it is wanted.
    fn look(&mut self) {
        let wanted = self.subscriptions.uris();
        for uri in self.held.intersection(&wanted) {
            // Whoever left and came back before the server was told that anybody had left.
            if !self.busy.contains(uri) {
                self.subscriptions.settle_open(uri, Acceptance::Active);
            }
        }
        let unlike = self.held.symmetric_difference(&wanted);
        // What a request is under way for is looked at again when that is done.
        let unlike = unlike.filter(|uri| !self.busy.contains(*uri));
        self.waiting = unlike.cloned().collect();
    }

    fn take(&mut self, done: Done) {
        let Done { uri, is_held } = done;
        self.busy.remove(&uri);
        if is_held {
            self.held.insert(Arc::clone(&uri));
        } else {
            self.held.remove(&uri);
        }
        // Something else may be wanted by now.
        self.waiting.push_back(uri);
    }

    /// Makes as many requests as may be made at a time.
    fn go_on(&mut self) {
        while self.under_way.len() < AT_ONCE
            && let Some(uri) = self.waiting.pop_front()
        {
            if self.busy.contains(&uri) {
                continue;
            }
            let request = match (self.held.contains(&uri), self.subscriptions.wants(&uri)) {
                (false, true) => join(self.session, self.subscriptions, Arc::clone(&uri)).boxed(),
                (true, false) => leave(self.session, Arc::clone(&uri)).boxed(),
                _ => continue,
            };
            self.busy.insert(uri);
            self.under_way.push(request);
        }
    }
}

async fn join(session: &Session, subscriptions: &Subscriptions, uri: Arc<str>) -> Done {
    let deadline = Deadline::after(AGREEING);
    let query = Query::new("resources/subscribe", deadline).with_subject("uri", &uri);
    let answer = session.query(&query).await;
    let is_held = answer.is_ok();
    let agreement = match answer {
        Ok(_) => Acceptance::Active,
        Err(error) => Acceptance::Rejected(error.to_string().into()),
    };
    subscriptions.settle_open(&uri, agreement);
    Done { uri, is_held }
}

async fn leave(session: &Session, uri: Arc<str>) -> Done {
    let deadline = Deadline::after(LEAVING);
    let query = Query::new("resources/unsubscribe", deadline).with_subject("uri", &uri);
    if let Err(error) = session.query(&query).await {
        tracing::debug!(%uri, %error, "not unsubscribed");
    }
    let is_held = false;
    Done { uri, is_held }
}
