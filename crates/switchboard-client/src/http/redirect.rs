//! Decides which redirects the client follows. Describes to the user the redirects that the client
//! does not follow.
//!
//! Invariant: a redirect to another origin is never followed.

use http::{StatusCode, header};
use url::{Position, Url};

use super::HttpResponse;

/// A URL with more characters is truncated in messages.
const MAX_URL_CHARS: usize = 200;

impl HttpResponse {
    /// Returns the target of a redirect to the same origin with status 307 or 308, which keep the
    /// method and body. Returns `None` for any other response.
    pub(super) fn same_origin_redirect(&self, from: &Url) -> Option<Url> {
        let keeps_request = matches!(
            self.status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        let next = self.location(from).filter(|_| keeps_request)?;
        is_same_origin(from, &next).then_some(next)
    }

    /// Describes a redirect that the client did not follow. `mask` masks secrets in the URL.
    /// Returns `None` for any status outside 300 to 399.
    pub(crate) fn describe_redirect(
        &self,
        from: &Url,
        mask: impl Fn(&str) -> String,
    ) -> Option<String> {
        if !self.status.is_redirection() {
            return None;
        }
        let status = self.status.as_u16();
        let display = |url: &Url| truncate(mask(&without_secrets(url)));
        Some(match self.location(from) {
            Some(next) if next == *from => format!(
                "the server redirects to the same URL, {} (HTTP {status}), which is not followed",
                display(&next)
            ),
            Some(next) if is_same_origin(from, &next) => format!(
                "the server redirects to {} (HTTP {status}), which is not followed; if the redirect \
                 is intended, set this URL as `url` of the entry",
                display(&next)
            ),
            Some(next) => format!(
                "the server redirects to {} (HTTP {status}), which is another server; credentials \
                 are not sent there; if the redirect is intended, set this URL as `url` of the entry",
                display(&next)
            ),
            None => format!("the server redirects without a valid `Location` (HTTP {status})"),
        })
    }

    fn location(&self, from: &Url) -> Option<Url> {
        let location = self.headers.get(header::LOCATION)?.to_str().ok()?;
        from.join(location).ok()
    }
}

pub(super) fn is_same_origin(left: &Url, right: &Url) -> bool {
    left.scheme() == right.scheme()
        && left.host() == right.host()
        && left.port_or_known_default() == right.port_or_known_default()
}

/// Formats a URL for messages, without its credentials and query, which may contain secrets.
/// Truncates a long URL.
pub(super) fn display_url(url: &Url) -> String {
    truncate(without_secrets(url))
}

fn without_secrets(url: &Url) -> String {
    let mut text = format!("{}://", url.scheme());
    text.push_str(&url[Position::BeforeHost..Position::AfterPath]);
    text
}

fn truncate(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_URL_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}
