//! Subscriptions of the legacy era: a request for each resource, and one to take it back.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::{AGREEING, Agreement, Subscriptions, Uris};
use crate::session::inquiry::Inquiry;
use crate::session::{Patience, Session};

/// How many requests are made at a time.
const AT_ONCE: usize = 16;
/// Whether a server heard that nobody wants to know any more is its own affair.
const LEAVING: Duration = Duration::from_secs(5);

pub(super) async fn serve(session: &Session, subscriptions: &Subscriptions) {
    let mut held = Uris::new();
    loop {
        subscriptions.changed.notified().await;
        let wanted = subscriptions.uris();
        let left: Vec<_> = held.difference(&wanted).cloned().collect();
        let joined: Vec<_> = wanted.difference(&held).cloned().collect();
        for uri in held.intersection(&wanted) {
            // Whoever left and came back before the server was told that anybody had left.
            subscriptions.settle_open(uri, Agreement::Told);
        }
        let leaving = stream::iter(left.clone()).map(|uri| leave(session, uri));
        let joining = stream::iter(joined).map(|uri| join(session, subscriptions, uri));
        let leaving = leaving.buffer_unordered(AT_ONCE).count();
        let joining = joining.buffer_unordered(AT_ONCE);
        let joining = joining.filter_map(std::future::ready).collect::<Vec<_>>();
        let (_, new) = tokio::join!(leaving, joining);
        for uri in &left {
            held.remove(uri);
        }
        held.extend(new);
    }
}

/// The address, if the server agreed.
async fn join(session: &Session, subscriptions: &Subscriptions, uri: Arc<str>) -> Option<Arc<str>> {
    let patience = Patience::within(AGREEING);
    let inquiry = Inquiry::new("resources/subscribe", patience).about("uri", &uri);
    match session.inquire(&inquiry).await {
        Ok(_) => {
            subscriptions.settle_open(&uri, Agreement::Told);
            Some(uri)
        }
        Err(error) => {
            let why = error.to_string().into();
            subscriptions.settle_open(&uri, Agreement::Untold(why));
            None
        }
    }
}

async fn leave(session: &Session, uri: Arc<str>) {
    let patience = Patience::within(LEAVING);
    let inquiry = Inquiry::new("resources/unsubscribe", patience).about("uri", &uri);
    if let Err(error) = session.inquire(&inquiry).await {
        tracing::debug!(%uri, %error, "not unsubscribed");
    }
}
