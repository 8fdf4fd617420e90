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

    /// For an answer of 300 to 399 that was not followed: where it wanted us to go, in words and
    /// without what `mask` takes out.
    pub(crate) fn moved_to(&self, from: &Url, mask: impl Fn(&str) -> String) -> Option<String> {
        if !self.status.is_redirection() {
            return None;
        }
        let status = self.status.as_u16();
        let place = |url: &Url| cut(mask(&whole_place(url)));
        Some(match self.location(from) {
            Some(next) if is_same_origin(from, &next) => format!(
                "the server sends us on to {} (HTTP {status}), which is not followed: if that is \
                 right, put it into the entry as its `url`",
                place(&next)
            ),
            Some(next) => format!(
                "the server sends us on to {} (HTTP {status}), which is another server: \
                 credentials do not follow there; if that is right, put it into the entry as its \
                 `url`",
                place(&next)
            ),
            None => format!("the server sends us elsewhere (HTTP {status}) and does not say where"),
        })
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
    cut(whole_place(url))
}

fn whole_place(url: &Url) -> String {
    let mut text = format!("{}://", url.scheme());
    text.push_str(&url[Position::BeforeHost..Position::AfterPath]);
    text
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}
