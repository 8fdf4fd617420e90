//! Carries requests to a remote server, with what authorizes them.
//!
//! Invariant: a request that was refused for its credential is sent again only with another one,
//! and only a few times; the server said itself that it did not take it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::auth::login::LoginRequired;
use crate::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Challenge, Credential,
};
use crate::id::ServerName;
use crate::telemetry::Redactor;
use crate::transport::http::{HttpClient, HttpError, Incoming, Outgoing};

/// How often one request may be refused for its credential.
const REFUSALS: u32 = 3;

pub(crate) struct AuthorizedClient {
    server: ServerName,
    url: Url,
    client: HttpClient,
    auth: Arc<dyn AuthProvider>,
}

/// An answer, and the credential that it was asked for with.
pub(super) struct AuthorizedResponse {
    pub(super) incoming: Incoming,
    credential: Credential,
}

impl AuthorizedResponse {
    /// Masks the credential wherever the server repeats it.
    pub(super) fn redactor(&self) -> Redactor {
        Redactor::new(self.credential.secrets())
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum SendFailure {
    Http(HttpError),
    /// There is no credential to be had.
    NoCredential(AuthError),
    /// Somebody has to log in.
    NeedsLogin(Box<LoginRequired>),
}

impl SendFailure {
    fn without_credential(error: AuthError) -> Self {
        if error.wants_login() {
            Self::NeedsLogin(Box::new(LoginRequired::before_asking(&error)))
        } else {
            Self::NoCredential(error)
        }
    }
}

impl AuthorizedClient {
    pub(crate) fn new(
        server: ServerName,
        url: Url,
        client: HttpClient,
        auth: Arc<dyn AuthProvider>,
    ) -> Self {
        Self {
            server,
            url,
            client,
            auth,
        }
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request to `url`, or to the server's own address, and comes back with the head of
    /// the answer.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Option<&Url>,
        headers: impl Fn() -> HeaderMap,
        body: Bytes,
    ) -> Result<AuthorizedResponse, SendFailure> {
        let mut before = 0;
        loop {
            let credential = self
                .auth
                .credential(AuthRequest::new(&self.server, self.url.as_str()))
                .await
                .map_err(SendFailure::without_credential)?;
            let outgoing = || Outgoing {
                method: method.clone(),
                url: url.cloned(),
                headers: headers(),
                credential: credential.headers().clone(),
                body: body.clone(),
            };
            let incoming = self
                .client
                .send(outgoing)
                .await
                .map_err(SendFailure::Http)?;
            if is_about_credentials(incoming.status) && before < REFUSALS {
                match self.refused(&incoming, &credential, before).await {
                    AuthVerdict::TryAgain => {
                        before += 1;
                        continue;
                    }
                    AuthVerdict::NeedsLogin => {
                        let challenge = Challenge::from_headers(&incoming.headers);
                        let status = incoming.status.as_u16();
                        let server = &self.server;
                        let login =
                            LoginRequired::after_refusal(server, status, challenge, &credential);
                        return Err(SendFailure::NeedsLogin(Box::new(login)));
                    }
                    AuthVerdict::Failed(error) => {
                        return Err(SendFailure::without_credential(error));
                    }
                    AuthVerdict::Forbidden => {}
                }
            }
            return Ok(AuthorizedResponse {
                incoming,
                credential,
            });
        }
    }

    async fn refused(
        &self,
        incoming: &Incoming,
        credential: &Credential,
        before: u32,
    ) -> AuthVerdict {
        let challenge = Challenge::from_headers(&incoming.headers);
        let status = incoming.status.as_u16();
        let status = AuthRefusal::new(&self.server, status, &challenge, credential);
        self.auth.refused(status.after(before)).await
    }
}

fn is_about_credentials(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}
