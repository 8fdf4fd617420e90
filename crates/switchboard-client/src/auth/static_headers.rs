//! Providers whose credential never changes: the headers of a config entry, or a bearer token.

use std::collections::BTreeMap;
use std::future::ready;

use switchboard_wire::Secret;

use super::{AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential};
use switchboard_wire::BoxFuture;

/// A provider that sends the same headers with every request.
#[derive(Clone, Debug, Default)]
pub struct StaticHeaders(Credential);

impl StaticHeaders {
    /// Creates a provider from header names and values. Ignores protocol headers (`Accept`,
    /// `Content-Type`, `Mcp-…`): many config entries contain them, but the transport sets them.
    pub fn new<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, AuthError> {
        let mut headers = headers
            .into_iter()
            .filter(|(name, _)| !is_protocol_header(name));
        let credential = headers.try_fold(Credential::none(), |credential, (name, value)| {
            credential.header(name, value)
        })?;
        Ok(Self(credential))
    }

    /// Creates a provider from the headers of a config entry.
    #[doc(hidden)]
    pub fn from_entry(headers: &BTreeMap<String, Secret>) -> Result<Self, AuthError> {
        Self::new(headers.iter().map(|(name, value)| (name.as_str(), value)))
    }

    pub(super) fn as_credential(&self) -> &Credential {
        &self.0
    }
}

/// Whether this is the name of a header that the transport itself sets, such as `Accept`,
/// `Content-Type` or an MCP header.
pub fn is_protocol_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let protocol_headers = ["accept", "accept-encoding", "content-type", "last-event-id"];
    protocol_headers.contains(&name.as_str()) || name.starts_with("mcp-")
}

impl AuthProvider for StaticHeaders {
    fn credential<'a>(
        &'a self,
        _: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(ready(Ok(self.0.clone())))
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(ready(refusal.final_verdict()))
    }
}

/// A provider that sends the same token with every request, as `Authorization: Bearer …`.
#[derive(Clone, Debug)]
pub struct Bearer(StaticHeaders);

impl Bearer {
    /// Creates a provider from a token. The token must not begin with `Bearer`, which the provider
    /// adds. Fails if the token is too long or contains characters that are not allowed in a
    /// header.
    pub fn new(token: impl Into<Secret>) -> Result<Self, AuthError> {
        let credential = Credential::bearer(&token.into())?;
        Ok(Self(StaticHeaders(credential)))
    }
}

impl AuthProvider for Bearer {
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        self.0.credential(request)
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        self.0.refused(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Challenge;
    use switchboard_wire::id::ServerName;

    #[tokio::test]
    async fn protocol_headers_are_ignored_and_401_needs_login() {
        let headers = BTreeMap::from([
            ("Authorization".to_owned(), Secret::from("Bearer t")),
            ("content-type".to_owned(), Secret::from("text/plain")),
            ("Mcp-Session-Id".to_owned(), Secret::from("mine")),
        ]);
        let provider = StaticHeaders::from_entry(&headers).unwrap();
        let name = ServerName::new("n").unwrap();
        let request = AuthRequest::new(&name, "https://a.example/mcp");
        let credential = provider.credential(request).await.unwrap();
        assert_eq!(credential.names().collect::<Vec<_>>(), ["authorization"]);

        let challenge = Challenge::default();
        let refusal = |status| AuthRefusal::new(&name, status, &challenge, &credential);
        assert_eq!(
            provider.refused(refusal(401)).await,
            AuthVerdict::NeedsLogin
        );
        assert_eq!(provider.refused(refusal(403)).await, AuthVerdict::Forbidden);
    }
}
