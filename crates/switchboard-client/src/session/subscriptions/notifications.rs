//! Handles the notifications that concern resource subscriptions.
//!
//! Invariant: an update of a part of a resource counts as an update of the resource. A URI names a
//! part of a resource if the URI of the resource is a prefix of it that ends just before or just
//! after a separator (`/`, `?` or `#`).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Acceptance, SubscriptionState, Subscriptions};
use switchboard_wire::decode;
use switchboard_wire::decode::SubscriptionNotification;
use switchboard_wire::mcp::Era;
use switchboard_wire::sync::lock;

/// Maximum number of separators at which the ancestors of a URI are looked up, counted from the end
/// of the URI.
const MAX_SEPARATORS: usize = 32;

impl Subscriptions {
    /// Handles `notifications/resources/updated`. A modern server must name an open
    /// `subscriptions/listen` request, otherwise the notification is ignored.
    pub(in crate::session) fn on_updated(&self, params: &[u8], era: Option<Era>) {
        if lock(&self.state).uris.is_empty() {
            return;
        }
        let Some(SubscriptionNotification {
            uri,
            listen_request,
            ..
        }) = decode::subscription_notification(params)
        else {
            return;
        };
        let state = lock(&self.state);
        let names_open_listen =
            listen_request.is_some_and(|id| state.listens.iter().any(|listen| listen.has_id(id)));
        if era == Some(Era::Modern) && !names_open_listen {
            return;
        }
        state.record_update(&uri.unwrap_or_default());
    }

    /// Handles `notifications/subscriptions/acknowledged`. The URIs that the server accepted become
    /// active; the other URIs of the request are rejected.
    pub(in crate::session) fn on_acknowledged(&self, params: &[u8]) {
        if lock(&self.state).listens.is_empty() {
            return;
        }
        let Some(notification) = decode::subscription_notification(params) else {
            return;
        };
        let listen = {
            let state = lock(&self.state);
            let mut listens = state.listens.iter();
            let acknowledged = match notification.listen_request {
                Some(id) => listens.find(|listen| listen.has_id(id)),
                // An acknowledgement without a request id belongs to the request that is not
                // acknowledged yet.
                None if notification.accepted_uris.is_some() => {
                    listens.find(|listen| !listen.is_acknowledged.is_cancelled())
                }
                None => None,
            };
            acknowledged.cloned()
        };
        let Some(listen) = listen else { return };
        let accepted = notification.accepted_uris.unwrap_or_default();
        let accepted: BTreeSet<&str> = accepted.iter().map(String::as_str).collect();
        let why: Arc<str> = "the server did not accept the subscription".into();
        for uri in &listen.uris {
            let acceptance = if accepted.contains(&**uri) {
                Acceptance::Active
            } else {
                Acceptance::Rejected(Arc::clone(&why))
            };
            self.set_acceptance(uri, acceptance);
        }
        listen.is_acknowledged.cancel();
    }

    /// Handles `notifications/cancelled`: the server may have cancelled a listen request.
    pub(in crate::session) fn on_cancelled(&self, params: &[u8]) {
        let state = lock(&self.state);
        if state.listens.is_empty() {
            return;
        }
        let Some(id) = decode::cancelled_id_number(params) else {
            return;
        };
        if let Some(listen) = state.listens.iter().find(|listen| listen.has_id(id)) {
            listen.is_cancelled.cancel();
        }
    }
}

impl SubscriptionState {
    /// Reports an update of the resource with this URI, and of every resource of which it is a
    /// part.
    pub(super) fn record_update(&self, uri: &str) {
        for uri in uri_and_ancestors(uri) {
            if let Some(subscribed) = self.uris.get(uri) {
                subscribed.record_update();
            }
        }
    }
}

/// A URI and its ancestors, the longest first. An ancestor is a prefix of the URI that ends just
/// before or just after a separator.
fn uri_and_ancestors(uri: &str) -> impl Iterator<Item = &str> {
    let is_separator = |(_, c): &(usize, char)| matches!(c, '/' | '?' | '#');
    let separators = uri.char_indices().rev().filter(is_separator);
    let ancestors = separators
        .take(MAX_SEPARATORS)
        .flat_map(|(at, _)| [uri.get(..=at), uri.get(..at)])
        .flatten()
        .filter(move |ancestor| ancestor.len() < uri.len());
    std::iter::once(uri).chain(ancestors)
}

#[cfg(test)]
mod tests {
    use super::uri_and_ancestors;

    #[test]
    fn ancestors_are_prefixes_at_separators() {
        let uris: Vec<_> = uri_and_ancestors("x://a/b?c").collect();
        let expected = [
            "x://a/b?c",
            "x://a/b?",
            "x://a/b",
            "x://a/",
            "x://a",
            "x://",
            "x:/",
            "x:/",
            "x:",
        ];
        assert_eq!(uris, expected);
        assert_eq!(uri_and_ancestors(&"/".repeat(100_000)).count(), 64);
    }
}
