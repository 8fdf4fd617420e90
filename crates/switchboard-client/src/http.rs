//! HTTP/1.1 client for one server: connection pool, TLS, proxies, redirects, gzip.
//!
//! The client knows nothing of MCP, and waits for a response without a time limit. The session
//! gives up by dropping the future, which closes the connection.
//!
//! Invariants: apart from redirects, a request is sent at most once. It is tried on another
//! connection only if hyper returned it unsent. A request with `Redirects::Return` is not
//! redirected. Credentials are sent only to the origin of the server, and over unencrypted http only
//! to a loopback host.

mod body;
mod connect;
mod endpoint;
mod error;
mod gzip;
mod network;
mod pool;
mod redirect;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HOST, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;
use url::{Position, Url};

use crate::delivery::Delivery;
use crate::local_address::is_loopback;

use self::body::RequestBody;
use self::connect::Route;
use self::pool::{Connection, Pool};

pub use self::endpoint::{HttpEndpoint, HttpTransport, UrlError, parse_server_url};
pub use self::network::{Network, ProxyError};

pub(crate) use self::body::{Body, BodyError};
pub(crate) use self::error::{HttpError, HttpErrorKind};
pub use self::tls::TlsConfig;

/// Maximum number of redirects that one request follows.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of pooled connections that are tried for one request before a new one is opened.
/// The server may have closed any pooled connection while it was idle.
const MAX_POOLED_ATTEMPTS: usize = 64;

/// The HTTP client of one server. Clones share one connection pool; its idle connections are closed
/// when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<ClientState>);

/// The URL of a server and its TLS configuration.
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) tls: TlsConfig,
}

/// A request to the server. [`HttpClient::send`] calls its argument `make_request` to build the
/// request, and again after each redirect.
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    /// The URL to send the request to, with the same origin as the server. `None` for the URL of
    /// the server.
    pub(crate) url: Option<Url>,
    /// Headers without secrets.
    pub(crate) headers: HeaderMap,
    /// Headers with secrets.
    pub(crate) credential: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) redirects: Redirects,
    /// Set as soon as a byte of the request may have been written.
    pub(crate) sent: SentFlag,
}

/// Whether a byte of a request may have been written. Clones share the flag, so that the sender can
/// read it after it dropped the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentFlag(Arc<AtomicBool>);

impl SentFlag {
    fn set(&self, is_sent: bool) {
        self.0.store(is_sent, Ordering::Relaxed);
    }

    /// The delivery of a request that got no response.
    pub(crate) fn delivery(&self) -> Delivery {
        if self.0.load(Ordering::Relaxed) {
            Delivery::Unknown
        } else {
            Delivery::NotSent
        }
    }
}

/// What the client does with a redirect of a request to the same origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// Sends the request to the new URL if the status is 307 or 308.
    Follow,
    /// Returns the redirect as the response. For requests that must not be sent twice: the server
    /// may have executed the request before it redirected it.
    Return,
}

/// Status, headers and body of a response. The body may still be arriving.
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    /// The URL that the response came from, if the client followed a redirect.
    pub(crate) redirected_to: Option<Url>,
}

struct ClientState {
    url: Url,
    route: Route,
    pool: Arc<Pool>,
    tasks: TaskTracker,
    connect_timeout: Duration,
    /// `url` in the form that a request line contains: path and query, or the whole URL for a proxy
    /// that forwards requests.
    uri: Uri,
    /// Value of the `Host` header.
    host: HeaderValue,
    /// Whether credentials may be sent: the connection is encrypted, or the server is on this
    /// machine.
    is_private: bool,
}

impl HttpClient {
    pub(crate) fn new(
        target: Target,
        network: Arc<Network>,
        connect_timeout: Duration,
        tasks: TaskTracker,
    ) -> Result<Self, HttpError> {
        let invalid = |text| HttpError::not_sent(HttpErrorKind::InvalidConfig(text));
        let Target { mut url, tls } = target;
        url.set_fragment(None);
        let is_encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => {
                return Err(invalid(
                    "the URL does not begin with `https://` or `http://`",
                ));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid(
                "the URL contains a user name or password; set them in `headers` of the entry \
                 instead (`Authorization: Basic …`)",
            ));
        }
        let host = url.host().map(|host| host.to_owned());
        let host = host.ok_or_else(|| invalid("the URL has no host"))?;
        let port = url.port_or_known_default().unwrap_or(443);
        let route = Route {
            is_encrypted,
            connector: OnceCell::new(),
            proxy: network.proxy_for(&url).cloned(),
            tls,
            network,
            address: format!("{host}:{port}").into(),
            port,
            host,
        };
        let host_header = match url.port() {
            Some(port) => format!("{}:{port}", route.host),
            None => route.host.to_string(),
        };
        Ok(Self(Arc::new(ClientState {
            uri: route
                .request_uri(&url)
                .ok_or_else(|| invalid(INVALID_TARGET))?,
            host: HeaderValue::try_from(host_header).map_err(|_| invalid(INVALID_TARGET))?,
            is_private: is_encrypted || is_loopback(&route.host),
            pool: Pool::new(tasks.clone()),
            url,
            route,
            tasks,
            connect_timeout,
        })))
    }

    /// Sends a request and returns as soon as the headers of the response have arrived. Dropping
    /// the future, or dropping the response body before its end, closes the connection.
    ///
    /// Follows redirects with status 307 or 308 to the same origin, at most `MAX_REDIRECTS`, and
    /// calls `make_request` again for each. Any other redirect is returned as the response, and
    /// with [`Redirects::Return`] every redirect.
    pub(crate) async fn send(
        &self,
        make_request: impl Fn() -> HttpRequest,
    ) -> Result<HttpResponse, HttpError> {
        let client = &self.0;
        let mut parts = make_request();
        let mut url = parts.url.take();
        let mut max_redirects = match parts.redirects {
            Redirects::Follow => MAX_REDIRECTS,
            Redirects::Return => 0,
        };
        let mut redirected_to = None;
        loop {
            let mut request = Request::new(RequestBody::new(parts.body));
            *request.method_mut() = parts.method;
            *request.uri_mut() = match &url {
                None => client.uri.clone(),
                Some(url) => client.request_uri(url)?,
            };
            *request.headers_mut() = client.request_headers(parts.headers, parts.credential)?;
            let mut response = client
                .exchange(request, &parts.sent, redirected_to.is_some())
                .await?;
            let current = url.as_ref().unwrap_or(&client.url);
            match response.same_origin_redirect(current) {
                Some(next) if max_redirects > 0 => {
                    max_redirects -= 1;
                    redirected_to = Some(next.clone());
                    url = Some(next);
                    parts = make_request();
                }
                _ => {
                    response.redirected_to = redirected_to;
                    return Ok(response);
                }
            }
        }
    }
}

impl ClientState {
    /// Merges the headers of a request with its credential and with the headers that the client
    /// sets. Fails if the credential would be sent unencrypted to another machine, or contains a
    /// reserved header.
    fn request_headers(
        &self,
        mut headers: HeaderMap,
        credential: HeaderMap,
    ) -> Result<HeaderMap, HttpError> {
        if !credential.is_empty() && !self.is_private {
            let address = self.route.address.to_string();
            return Err(HttpError::not_sent(HttpErrorKind::UnencryptedCredential {
                address,
            }));
        }
        if let Some(name) = credential.keys().find(|name| is_reserved(name)) {
            let name = name.to_string();
            return Err(HttpError::not_sent(HttpErrorKind::ReservedHeader { name }));
        }
        headers.insert(HOST, self.host.clone());
        headers.insert(USER_AGENT, USER_AGENT_VALUE);
        headers.extend(credential);
        headers.insert(ACCEPT_ENCODING, GZIP);
        // A proxy forwards an unencrypted request, which therefore carries the proxy password. An
        // encrypted request passes through a tunnel, for which `open_tunnel` sends the proxy
        // password.
        if let Some(proxy) = self
            .route
            .proxy
            .as_ref()
            .filter(|_| !self.route.is_encrypted)
            && let Some(authorization) = &proxy.authorization
        {
            headers.insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        Ok(headers)
    }

    fn request_uri(&self, url: &Url) -> Result<Uri, HttpError> {
        if !redirect::is_same_origin(&self.url, url) {
            return Err(HttpError::not_sent(HttpErrorKind::OtherOrigin {
                address: self.route.address.to_string(),
                url: redirect::display_url(url),
            }));
        }
        let uri = self.route.request_uri(url);
        uri.ok_or_else(|| HttpError::not_sent(HttpErrorKind::InvalidConfig(INVALID_TARGET)))
    }

    /// Sends a request on a pooled or new connection. Tries another connection only if hyper
    /// returned the request unsent.
    async fn exchange(
        &self,
        mut request: Request<RequestBody>,
        sent: &SentFlag,
        was_redirected: bool,
    ) -> Result<HttpResponse, HttpError> {
        for _ in 0..MAX_POOLED_ATTEMPTS {
            let Some(connection) = self.pool.take().await else {
                break;
            };
            match self.try_send(connection, request, sent).await? {
                ExchangeOutcome::Response(response) => return Ok(response),
                ExchangeOutcome::NotSent(unsent, _) => {
                    // The request that was redirected did arrive.
                    sent.set(was_redirected);
                    request = unsent;
                }
            }
        }
        let connection = self
            .route
            .connect(self.connect_timeout, &self.tasks)
            .await?;
        match self.try_send(connection, request, sent).await? {
            ExchangeOutcome::Response(response) => Ok(response),
            ExchangeOutcome::NotSent(_, kind) => Err(HttpError::not_sent(kind)),
        }
    }

    async fn try_send(
        &self,
        connection: Connection,
        request: Request<RequestBody>,
        sent: &SentFlag,
    ) -> Result<ExchangeOutcome, HttpError> {
        sent.set(true);
        let mut failure = match connection.send(request).await {
            Ok((response, connection)) => {
                let (head, body) = response.into_parts();
                let address = &self.route.address;
                let body = Body::new(body, &head.headers, connection, &self.pool, address);
                return Ok(ExchangeOutcome::Response(HttpResponse {
                    status: head.status,
                    headers: head.headers,
                    body,
                    redirected_to: None,
                }));
            }
            Err(failure) => failure,
        };
        let mut kind = error::from_hyper(&self.route.address, failure.error(), false);
        if !self.route.is_encrypted {
            kind = kind.with_tls_hint();
        }
        match failure.take_message() {
            Some(request) => Ok(ExchangeOutcome::NotSent(request, kind)),
            None => Err(HttpError::unknown(kind)),
        }
    }
}

enum ExchangeOutcome {
    Response(HttpResponse),
    /// The connection failed before a byte of the request was written.
    NotSent(Request<RequestBody>, HttpErrorKind),
}

impl Route {
    /// Returns what the request line contains: path and query, or the whole URL if a proxy forwards
    /// the request.
    fn request_uri(&self, url: &Url) -> Option<Uri> {
        let is_forwarded = self.proxy.is_some() && !self.is_encrypted;
        let text = if is_forwarded {
            &url[..Position::AfterQuery]
        } else {
            &url[Position::BeforePath..Position::AfterQuery]
        };
        text.parse().ok()
    }
}

const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("switchboard/", env!("CARGO_PKG_VERSION")));
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const INVALID_TARGET: &str = "the URL cannot be used in an HTTP request";

/// Whether a header affects the framing or routing of a request. A credential must not contain such
/// a header.
fn is_reserved(name: &HeaderName) -> bool {
    [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::EXPECT,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ]
    .contains(name)
        || name == "keep-alive"
        || name == "proxy-connection"
}
