//! Servers of a claude.ai account: where they are, and who may be shown the account's bearer.
//!
//! Pure. Invariant: an address that is not on the list of origins never gets an endpoint, and so never
//! the bearer.

use switchboard_client::http::{UrlError, is_loopback, parse_server_url};
use url::{Origin, Url};

use super::server_spec::remote::url_hint;

/// Where claude.ai answers.
const ORIGINS: [&str; 3] = [
    "https://mcp-proxy.anthropic.com",
    "https://api.anthropic.com",
    "https://claude.ai",
];

/// The origins that may be shown the bearer of the account.
#[derive(Clone, Debug)]
pub(crate) struct AllowedOrigins(Vec<Origin>);

impl Default for AllowedOrigins {
    fn default() -> Self {
        let origins = ORIGINS.iter().filter_map(|text| Url::parse(text).ok());
        Self(origins.map(|url| url.origin()).collect())
    }
}

impl AllowedOrigins {
    /// Adds the origin of an address, if it has one.
    pub(crate) fn allow(&mut self, address: &str) {
        let origin = Url::parse(address).map(|url| url.origin());
        self.0.extend(origin.into_iter().filter(Origin::is_tuple));
    }
}

/// Why an entry of a claude.ai account cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaudeAiUrlError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("`url` must begin with https://: the bearer of the account goes there")]
    Plain,
    #[error("the bearer of the account does not go to {origin}")]
    Stranger { origin: String },
    #[error("`id` is empty or leads elsewhere")]
    Id,
}

impl ClaudeAiUrlError {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Url(error) => url_hint(error),
            Self::Plain | Self::Stranger { .. } => {
                format!("claude.ai is at {}", ORIGINS.join(", "))
            }
            Self::Id => "write the id of the connector as the account shows it".to_owned(),
        }
    }
}

/// Where the connector `id` is behind the proxy at `written`: its id in place of `{id}` or
/// `{server_id}`; at a bare origin below `/v1/mcp/`; else as the last part of the path.
pub(crate) fn connector_url(
    written: &str,
    id: &str,
    allowed: &AllowedOrigins,
) -> Result<Url, ClaudeAiUrlError> {
    if id.is_empty() || id == "." || id == ".." {
        return Err(ClaudeAiUrlError::Id);
    }
    let proxy = parse_server_url(written)?;
    if !allowed.0.contains(&proxy.origin()) {
        let origin = proxy.origin().ascii_serialization();
        return Err(ClaudeAiUrlError::Stranger { origin });
    }
    let is_local = proxy.host().is_some_and(|host| is_loopback(&host));
    if proxy.scheme() != "https" && !is_local {
        return Err(ClaudeAiUrlError::Plain);
    }
    let encoded = encoded(id);
    // As the parser leaves them in a path and in a query.
    let places = ["{id}", "{server_id}", "%7Bid%7D", "%7Bserver_id%7D"];
    let filled = |part: &str| {
        let places = places.iter();
        places.fold(part.to_owned(), |part, place| part.replace(place, &encoded))
    };
    let mut endpoint = proxy.clone();
    endpoint.set_path(&filled(proxy.path()));
    endpoint.set_query(proxy.query().map(filled).as_deref());
    if endpoint == proxy {
        let path = match proxy.path().trim_end_matches('/') {
            "" => format!("/v1/mcp/{encoded}"),
            path => format!("{path}/{encoded}"),
        };
        endpoint.set_path(&path);
    }
    Ok(endpoint)
}

/// An id that stays one part of a path, whatever stands in it.
fn encoded(id: &str) -> String {
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

    fn at(written: &str, id: &str) -> Result<String, ClaudeAiUrlError> {
        let mut allowed = AllowedOrigins::default();
        allowed.allow("http://127.0.0.1:4000/whatever");
        allowed.allow("http://plain.example");
        allowed.allow("no address");
        connector_url(written, id, &allowed).map(String::from)
    }

    #[test]
    fn the_connector_is_one_part_of_the_address() {
        let proxy = "https://mcp-proxy.anthropic.com";
        for (written, id, expected) in [
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
            assert_eq!(at(&format!("{proxy}{written}"), id), expected, "{written}");
        }
        assert_eq!(
            at("http://127.0.0.1:4000", "x").as_deref(),
            Ok("http://127.0.0.1:4000/v1/mcp/x")
        );
        for id in ["", ".", ".."] {
            assert_eq!(at(proxy, id), Err(ClaudeAiUrlError::Id));
        }
    }

    #[test]
    fn nobody_else_is_shown_the_bearer() {
        for stranger in [
            "https://mcp-proxy.anthropic.com.evil.example/",
            "https://mcp-proxy.anthropic.com:444/",
            "https://evil.example/mcp-proxy.anthropic.com",
            "http://claude.ai/",
            "http://127.0.0.1:4001/",
            "https://claude.ai./",
        ] {
            let error = at(stranger, "x").unwrap_err();
            assert!(
                matches!(error, ClaudeAiUrlError::Stranger { .. }),
                "{stranger}"
            );
        }
        assert_eq!(
            at("http://plain.example/", "x"),
            Err(ClaudeAiUrlError::Plain)
        );
        for odd in ["https://claude.ai@evil.example/", "https://me:x@claude.ai/"] {
            assert_eq!(at(odd, "x"), Err(UrlError::Userinfo.into()));
        }
    }
}
