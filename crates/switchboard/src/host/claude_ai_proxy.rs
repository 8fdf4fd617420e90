//! Computes the URL of a claude.ai connector from a config entry of the type `claudeai-proxy`.
//!
//! Pure: this module neither connects nor has access to the bearer token of the account. Invariant:
//! a URL whose origin is not in [`TokenOrigins`] is rejected, so that the bearer token is never
//! sent to another origin.

use switchboard_client::http::{UrlError, parse_server_url};
use switchboard_client::local_address::is_loopback;
use url::{Origin, Url};

use super::server_spec::remote::url_hint;

/// The origins of claude.ai. `TokenOrigins::default()` contains them.
const DEFAULT_TOKEN_ORIGINS: [&str; 3] = [
    "https://mcp-proxy.anthropic.com",
    "https://api.anthropic.com",
    "https://claude.ai",
];

/// The origins that may receive the bearer token of the claude.ai account.
#[derive(Clone, Debug)]
pub(crate) struct TokenOrigins(Vec<Origin>);

impl Default for TokenOrigins {
    fn default() -> Self {
        let origins = DEFAULT_TOKEN_ORIGINS
            .iter()
            .filter_map(|text| Url::parse(text).ok());
        Self(origins.map(|url| url.origin()).collect())
    }
}

impl TokenOrigins {
    /// Adds the origin of `url`. Does nothing if `url` is not a URL or has no origin.
    pub(crate) fn allow(&mut self, url: &str) {
        let origin = Url::parse(url).map(|url| url.origin());
        self.0.extend(origin.into_iter().filter(Origin::is_tuple));
    }
}

/// Why a `claudeai-proxy` entry has no usable URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyUrlError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(
        "`url` must begin with https://, because the token of the claude.ai account is sent to it"
    )]
    NotHttps,
    #[error("{origin} may not receive the token of the claude.ai account")]
    OriginNotAllowed { origin: String },
    #[error("`id` must not be empty, `.` or `..`")]
    InvalidId,
}

impl ProxyUrlError {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Url(error) => url_hint(error),
            Self::NotHttps | Self::OriginNotAllowed { .. } => {
                format!(
                    "the origins of claude.ai are {}",
                    DEFAULT_TOKEN_ORIGINS.join(", ")
                )
            }
            Self::InvalidId => "copy the id of the connector from the claude.ai account".to_owned(),
        }
    }
}

/// Computes the URL of the connector `id` behind the proxy at `proxy_url`.
///
/// Replaces `{id}` and `{server_id}` in the path and the query of `proxy_url` with `id`. Without a
/// placeholder, appends `id` to the path. If the path is empty, the new path is `/v1/mcp/` followed
/// by `id`.
pub(crate) fn proxy_endpoint_url(
    proxy_url: &str,
    id: &str,
    allowed: &TokenOrigins,
) -> Result<Url, ProxyUrlError> {
    if id.is_empty() || id == "." || id == ".." {
        return Err(ProxyUrlError::InvalidId);
    }
    let proxy = parse_server_url(proxy_url)?;
    if !allowed.0.contains(&proxy.origin()) {
        let origin = proxy.origin().ascii_serialization();
        return Err(ProxyUrlError::OriginNotAllowed { origin });
    }
    let is_local = proxy.host().is_some_and(|host| is_loopback(&host));
    if proxy.scheme() != "https" && !is_local {
        return Err(ProxyUrlError::NotHttps);
    }
    let encoded = percent_encode(id);
    // The URL parser percent-encodes braces in the path, but not in the query.
    let placeholders = ["{id}", "{server_id}", "%7Bid%7D", "%7Bserver_id%7D"];
    let insert_id = |part: &str| {
        let placeholders = placeholders.iter();
        placeholders.fold(part.to_owned(), |part, placeholder| {
            part.replace(placeholder, &encoded)
        })
    };
    let mut endpoint = proxy.clone();
    endpoint.set_path(&insert_id(proxy.path()));
    endpoint.set_query(proxy.query().map(insert_id).as_deref());
    if endpoint == proxy {
        let path = match proxy.path().trim_end_matches('/') {
            "" => format!("/v1/mcp/{encoded}"),
            path => format!("{path}/{encoded}"),
        };
        endpoint.set_path(&path);
    }
    Ok(endpoint)
}

/// Percent-encodes all characters of an id that are special in a URL. The encoded id is then
/// exactly one path segment.
fn percent_encode(id: &str) -> String {
    let bytes = id.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url_of(proxy_url: &str, id: &str) -> Result<String, ProxyUrlError> {
        let mut allowed = TokenOrigins::default();
        allowed.allow("http://127.0.0.1:4000/path");
        allowed.allow("http://plain.example");
        allowed.allow("not a URL");
        proxy_endpoint_url(proxy_url, id, &allowed).map(String::from)
    }

    #[test]
    fn id_is_one_segment_of_the_url() {
        let proxy = "https://mcp-proxy.anthropic.com";
        for (path, id, expected) in [
            ("", "srv_1", "/v1/mcp/srv_1"),
            ("/", "srv_1", "/v1/mcp/srv_1"),
            ("/v1/mcp/{server_id}", "srv_1", "/v1/mcp/srv_1"),
            ("/x/{id}/mcp?c={id}", "srv_1", "/x/srv_1/mcp?c=srv_1"),
            ("/v2/servers", "srv_1", "/v2/servers/srv_1"),
            ("/v2/servers/", "srv_1", "/v2/servers/srv_1"),
            ("/v2?x=1", "srv_1", "/v2/srv_1?x=1"),
            ("", "a/../b?c#d e", "/v1/mcp/a%2F..%2Fb%3Fc%23d%20e"),
            ("/x/{id}", "../evil", "/x/..%2Fevil"),
        ] {
            let expected = Ok(format!("{proxy}{expected}"));
            assert_eq!(url_of(&format!("{proxy}{path}"), id), expected, "{path}");
        }
        assert_eq!(
            url_of("http://127.0.0.1:4000", "x").as_deref(),
            Ok("http://127.0.0.1:4000/v1/mcp/x")
        );
        for id in ["", ".", ".."] {
            assert_eq!(url_of(proxy, id), Err(ProxyUrlError::InvalidId));
        }
    }

    #[test]
    fn other_origins_are_rejected() {
        for url in [
            "https://mcp-proxy.anthropic.com.evil.example/",
            "https://mcp-proxy.anthropic.com:444/",
            "https://evil.example/mcp-proxy.anthropic.com",
            "http://claude.ai/",
            "http://127.0.0.1:4001/",
            "https://claude.ai./",
        ] {
            let error = url_of(url, "x").unwrap_err();
            assert!(
                matches!(error, ProxyUrlError::OriginNotAllowed { .. }),
                "{url}"
            );
        }
        assert_eq!(
            url_of("http://plain.example/", "x"),
            Err(ProxyUrlError::NotHttps)
        );
        for with_userinfo in ["https://claude.ai@evil.example/", "https://me:x@claude.ai/"] {
            assert_eq!(url_of(with_userinfo, "x"), Err(UrlError::Userinfo.into()));
        }
    }
}
