//! Credentials that never change.

use std::collections::BTreeMap;
use std::future::ready;

use switchboard_wire::Secret;

use super::{AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential};
use switchboard_wire::BoxFuture;

/// The same headers for every request: those of an entry.
#[derive(Clone, Debug, Default)]
pub struct StaticHeaders(Credential);

impl StaticHeaders {
    /// Headers by name. Those that belong to the protocol (`Accept`, `Content-Type`, `Mcp-…`) are left
    /// out: many entries name them, and only the transport knows them.
    pub fn new<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, AuthError> {
        let own = headers
            .into_iter()
            .filter(|(name, _)| !is_protocol_header(name));
        let credential = own
            .into_iter()
            .try_fold(Credential::none(), |held, (name, value)| {
                held.header(name, value)
            })?;
        Ok(Self(credential))
    }

    /// The headers of a config entry.
    #[doc(hidden)]
    pub fn of_entry(headers: &BTreeMap<String, Secret>) -> Result<Self, AuthError> {
        Self::new(headers.iter().map(|(name, value)| (name.as_str(), value)))
    }

    pub(super) fn as_credential(&self) -> &Credential {
        &self.0
    }
}

/// Whether the transport sets a header of this name itself.
pub fn is_protocol_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_set = ["accept", "accept-encoding", "content-type", "last-event-id"];
    is_set.contains(&name.as_str()) || name.starts_with("mcp-")
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

/// A token that does not change, sent as `Authorization: Bearer …`.
#[derive(Clone, Debug)]
pub struct Bearer(StaticHeaders);

impl Bearer {
    /// This token.
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
    async fn headers_go_with_each_request_and_a_refusal_of_them_asks_for_a_login() {
        let headers = BTreeMap::from([
            ("Authorization".to_owned(), Secret::from("Bearer t")),
            ("content-type".to_owned(), Secret::from("text/plain")),
            ("Mcp-Session-Id".to_owned(), Secret::from("mine")),
        ]);
        let provider = StaticHeaders::of_entry(&headers).unwrap();
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
