//! Where a remote server is, and what is needed to reach it.
//!
//! Only the description: what speaks to it is the session's affair, what connects is the HTTP
//! client's. Invariant: the address has a host and holds neither user nor password.

use std::fmt;
use std::sync::Arc;

use switchboard_config::RemoteKind;
use url::Url;

use super::http::TlsConfig;
use crate::auth::AuthProvider;
use crate::telemetry::Redactor;

/// A remote server, as its entry describes it.
#[derive(Clone)]
pub(crate) struct RemoteEndpoint {
    pub(crate) url: Url,
    pub(crate) kind: RemoteKind,
    /// Whether it is a server of the user's claude.ai account.
    pub(crate) is_claude_ai: bool,
    /// Certificates of its own.
    pub(crate) tls: TlsConfig,
    /// What authorizes each request.
    pub(crate) auth: Arc<dyn AuthProvider>,
    /// Masks what the entry and the provider keep secret.
    pub(crate) redactor: Redactor,
}

impl RemoteEndpoint {
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            _ if self.is_claude_ai => "claudeai-proxy",
            RemoteKind::Http | RemoteKind::Negotiated => "http",
            RemoteKind::Sse => "sse",
        }
    }
}

impl fmt::Debug for RemoteEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteEndpoint")
            .field("origin", &self.url.origin().ascii_serialization())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Why an address cannot be used. Never holds the address: there may be secrets in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("`url` is not a web address ({0})")]
    Unreadable(String),
    #[error("`url` holds a user name or a password")]
    Userinfo,
}

impl AddressError {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Unreadable(_) => "it begins with https:// or http:// and a host".to_owned(),
            Self::Userinfo => "take them out, and give a header instead: \"headers\": \
                 { \"Authorization\": \"Basic …\" }"
                .to_owned(),
        }
    }
}

/// The address of a server. What follows a `#` is never sent, so it is left out.
pub(crate) fn address(written: &str) -> Result<Url, AddressError> {
    let unreadable = |error: url::ParseError| AddressError::Unreadable(error.to_string());
    let mut url = Url::parse(written).map_err(unreadable)?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(AddressError::Unreadable("no http or https".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Userinfo);
    }
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_web_and_holds_no_password() {
        let read = |written: &str| address(written).map(String::from);
        assert_eq!(
            read("https://A.example:443/mcp?x=1#part").as_deref(),
            Ok("https://a.example/mcp?x=1")
        );
        for wrong in [
            "",
            "a.example/mcp",
            "ftp://a.example",
            "https://",
            "http://a b/",
        ] {
            let error = read(wrong).unwrap_err();
            assert!(matches!(error, AddressError::Unreadable(_)), "{wrong}");
        }
        for secret in ["https://me:hush@a.example/", "https://token@a.example/"] {
            let error = read(secret).unwrap_err();
            assert_eq!(error, AddressError::Userinfo);
            assert!(!error.to_string().contains("hush"));
        }
    }
}
