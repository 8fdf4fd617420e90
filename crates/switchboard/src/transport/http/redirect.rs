//! Where an answer sends us, and whether we go there.
//!
//! Invariant: nothing is followed to another origin, whatever the status says.

use http::{StatusCode, header};
use url::{Position, Url};

use super::Incoming;

/// The longest address that is shown.
const SHOWN: usize = 200;

impl Incoming {
    /// Where to send the same request again: only for answers that ask for just that, and only
    /// with the same server.
    pub(super) fn same_origin_redirect(&self, from: &Url) -> Option<Url> {
        let follows = matches!(
            self.status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        let next = self.location(from).filter(|_| follows)?;
        is_same_origin(from, &next).then_some(next)
    }

    fn location(&self, from: &Url) -> Option<Url> {
        let location = self.headers.get(header::LOCATION)?.to_str().ok()?;
        from.join(location).ok()
    }
}

pub(super) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// An address for messages: without its query, and without what stands before an `@`.
pub(super) fn place(url: &Url) -> String {
    let mut text = format!("{}://", url.scheme());
    text.push_str(&url[Position::BeforeHost..Position::AfterPath]);
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}
