//! The URL of a server, and everything that is needed to send requests to it.
//!
//! This module holds only data; [`HttpClient`](super::HttpClient) connects. Invariant: a URL that
//! `parse_server_url` returns contains neither a user name nor a password.

use std::fmt;
use std::sync::Arc;

use switchboard_wire::redact::Redactor;
use url::Url;

use super::TlsConfig;
use crate::auth::AuthProvider;

/// The HTTP transport of MCP that a server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpTransport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of 2024-11-05.
    Sse2024,
    /// Streamable HTTP is tried first. HTTP+SSE is used if the server rejects streamable HTTP.
    Detect,
}

/// A remote server: its URL, transport, TLS files and credentials.
#[derive(Clone)]
pub struct HttpEndpoint {
    /// The URL, without fragment.
    pub url: Url,
    /// The transport, or how to find out which one the server uses.
    pub transport: HttpTransport,
    /// Certificate and key files for the connections to this server.
    pub tls: TlsConfig,
    /// Supplies the credential of each request.
    pub auth: Arc<dyn AuthProvider>,
    /// Masks the secrets of the config entry and the credentials of `auth` in output.
    pub redactor: Redactor,
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEndpoint")
            .field("origin", &self.url.origin().ascii_serialization())
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

/// Why the URL of a server is not usable. No error contains the URL, because a URL may contain
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text is not an absolute `http` or `https` URL.
    #[error("`url` is not an http or https URL ({0})")]
    Invalid(String),
    /// The URL contains a user name or a password, which belong in a header instead.
    #[error("`url` contains a user name or a password")]
    Userinfo,
}

/// Parses the URL of a server and removes its fragment, which is never sent.
///
/// `http` is accepted for every host: whether a credential may be sent there is decided per
/// request.
pub fn parse_server_url(text: &str) -> Result<Url, UrlError> {
    let invalid = |error: url::ParseError| UrlError::Invalid(error.to_string());
    let mut url = Url::parse(text).map_err(invalid)?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(UrlError::Invalid(
            "unsupported scheme or no host".to_owned(),
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::Userinfo);
    }
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_url_is_http_without_password() {
        let parse = |text: &str| parse_server_url(text).map(String::from);
        assert_eq!(
            parse("https://A.example:443/mcp?x=1#part").as_deref(),
            Ok("https://a.example/mcp?x=1")
        );
        for wrong in [
            "",
            "a.example/mcp",
            "ftp://a.example",
            "https://",
            "http://a b/",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(matches!(error, UrlError::Invalid(_)), "{wrong}");
        }
        for secret in ["https://me:hush@a.example/", "https://token@a.example/"] {
            let error = parse(secret).unwrap_err();
            assert_eq!(error, UrlError::Userinfo);
            assert!(!error.to_string().contains("hush"));
        }
    }
}
