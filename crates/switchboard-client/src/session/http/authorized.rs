//! Sends HTTP requests with a credential.
//!
//! Invariant: a request is sent again only if the server rejected its credential, and thus did not
//! execute it, and if the [`AuthProvider`] asks for another attempt. There are at most
//! [`MAX_AUTH_ATTEMPTS`] further attempts.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::auth::LoginRequired;
use crate::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Challenge, Credential,
};
use crate::http::{HttpClient, HttpError, HttpRequest, HttpResponse, Redirects, SentFlag};
use switchboard_wire::id::ServerName;
use switchboard_wire::redact::Redactor;

/// Maximum number of times that one request is sent again after its credential was rejected.
const MAX_AUTH_ATTEMPTS: u32 = 3;

/// An HTTP client that adds the credential of the `AuthProvider` to each request.
pub(crate) struct AuthorizedClient {
    server: ServerName,
    url: Url,
    client: HttpClient,
    auth: Arc<dyn AuthProvider>,
}

/// What happens if the server redirects a request, and whether the request was sent.
#[derive(Clone, Debug)]
pub(super) struct SendOptions {
    pub(super) redirects: Redirects,
    pub(super) sent: SentFlag,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            redirects: Redirects::Follow,
            sent: SentFlag::default(),
        }
    }
}

impl SendOptions {
    /// The options for a request of this method. Tool calls are not redirected: the server may have
    /// executed a call before it redirected it.
    pub(super) fn of(method: &str) -> Self {
        let redirects = match method {
            "tools/call" => Redirects::Return,
            _ => Redirects::Follow,
        };
        Self {
            redirects,
            ..Self::default()
        }
    }
}

/// An HTTP response, and the credential that was sent with the request.
pub(super) struct AuthorizedResponse {
    pub(super) incoming: HttpResponse,
    credential: Credential,
}

impl AuthorizedResponse {
    /// A redactor that masks the credential of this request in texts of the server.
    pub(super) fn redactor(&self) -> Redactor {
        Redactor::new(self.credential.secrets())
    }
}

/// Why a request got no HTTP response, or none that the transport can use.
#[derive(Debug)]
pub(super) enum SendFailure {
    Http(HttpError),
    /// The [`AuthProvider`] failed to return a credential. A login would not help.
    NoCredential(AuthError),
    /// The server or the [`AuthProvider`] requires the user to log in.
    NeedsLogin(Box<LoginRequired>),
}

impl SendFailure {
    fn without_credential(error: AuthError) -> Self {
        if error.wants_login() {
            Self::NeedsLogin(Box::new(LoginRequired::without_credential(&error)))
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

    /// Sends a request to `url`, or to the URL of the server if `url` is `None`. Returns when the
    /// response headers have arrived.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Option<&Url>,
        headers: impl Fn() -> HeaderMap,
        body: Bytes,
    ) -> Result<AuthorizedResponse, SendFailure> {
        let options = SendOptions::default();
        self.send_with(method, url, &options, headers, body).await
    }

    /// Like [`send`](Self::send), with options.
    pub(super) async fn send_with(
        &self,
        method: Method,
        url: Option<&Url>,
        options: &SendOptions,
        headers: impl Fn() -> HeaderMap,
        body: Bytes,
    ) -> Result<AuthorizedResponse, SendFailure> {
        let mut rejections = 0;
        loop {
            let credential = self
                .auth
                .credential(AuthRequest::new(&self.server, self.url.as_str()))
                .await
                .map_err(SendFailure::without_credential)?;
            let request = || HttpRequest {
                method: method.clone(),
                url: url.cloned(),
                headers: headers(),
                credential: credential.headers().clone(),
                body: body.clone(),
                redirects: options.redirects,
                sent: options.sent.clone(),
            };
            let incoming = self.client.send(request).await.map_err(SendFailure::Http)?;
            if is_auth_status(incoming.status) && rejections < MAX_AUTH_ATTEMPTS {
                match self
                    .report_rejection(&incoming, &credential, rejections)
                    .await
                {
                    AuthVerdict::TryAgain => {
                        rejections += 1;
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

    /// Reports a rejected credential to the [`AuthProvider`], which decides how to go on.
    async fn report_rejection(
        &self,
        incoming: &HttpResponse,
        credential: &Credential,
        previous_rejections: u32,
    ) -> AuthVerdict {
        let challenge = Challenge::from_headers(&incoming.headers);
        let status = incoming.status.as_u16();
        let refusal = AuthRefusal::new(&self.server, status, &challenge, credential);
        let refusal = refusal.with_previous_refusals(previous_rejections);
        self.auth.refused(refusal).await
    }
}

fn is_auth_status(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}
