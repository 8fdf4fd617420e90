//! HTTP to one server: connections that are used again, encryption, proxies, redirects, gzip.
//!
//! It knows HTTP/1.1 and nothing of what is said over it. The wait for an answer has no limit here:
//! whoever waits drops the future, and that closes the connection. Invariants: a request of which
//! hyper took a byte is never sent a second time; credentials go to the server's own origin only,
//! and over plain http only to this machine.

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
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HOST, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;
use url::{Position, Url};

use self::body::Payload;
use self::connect::Route;
use self::pool::{Connection, Pool};

pub use self::endpoint::{HttpEndpoint, HttpTransport, UrlError, parse_server_url};
pub use self::network::{Network, ProxyError, is_loopback};

pub(crate) use self::body::{Body, BodyError};
pub(crate) use self::error::{HttpError, HttpErrorKind};
pub use self::tls::TlsConfig;

/// How often one request is sent on to another address of the same server.
const REDIRECTS: usize = 5;
/// How many connections that turn out to be closed are tried before a new one is made.
const STALE: usize = 64;

/// The client of one server; cheap to clone. Connections end with the last clone.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Client>);

/// Where a server is, and how it is reached safely.
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) tls: TlsConfig,
}

/// A request.
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    /// None is the target's; any other has to have its origin.
    pub(crate) url: Option<Url>,
    /// Those of the protocol.
    pub(crate) headers: HeaderMap,
    /// Those that are secret.
    pub(crate) credential: HeaderMap,
    pub(crate) body: Bytes,
}

/// The head of an answer, and its body as it comes.
pub(crate) struct Incoming {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

struct Client {
    url: Url,
    route: Route,
    pool: Arc<Pool>,
    tasks: TaskTracker,
    connect_limit: Duration,
    /// The target as it stands in a request.
    uri: Uri,
    host: HeaderValue,
    /// Whether nobody on the way can read what we send.
    is_private: bool,
}

impl HttpClient {
    pub(crate) fn new(
        target: Target,
        network: Arc<Network>,
        connect_limit: Duration,
        tasks: TaskTracker,
    ) -> Result<Self, HttpError> {
        let invalid = |text| HttpError::not_sent(HttpErrorKind::Address(text));
        let Target { mut url, tls } = target;
        url.set_fragment(None);
        let is_encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => {
                return Err(invalid(
                    "the address begins with neither `https://` nor `http://`",
                ));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid(
                "the address holds a name or a password: put them into the server's headers \
                 (`Authorization: Basic …`)",
            ));
        }
        let host = url.host().map(|host| host.to_owned());
        let host = host.ok_or_else(|| invalid("the address names no host"))?;
        let port = url.port_or_known_default().unwrap_or(443);
        let route = Route {
            is_encrypted,
            connector: OnceCell::new(),
            proxy: network.proxy_for(&url).cloned(),
            tls,
            network,
            at: format!("{host}:{port}").into(),
            port,
            host,
        };
        let unwritable = || invalid("the address cannot be written into a request");
        let named = match url.port() {
            Some(port) => format!("{}:{port}", route.host),
            None => route.host.to_string(),
        };
        Ok(Self(Arc::new(Client {
            uri: route.uri(&url).ok_or_else(unwritable)?,
            host: HeaderValue::try_from(named).map_err(|_| unwritable())?,
            is_private: is_encrypted || is_loopback(&route.host),
            pool: Pool::new(tasks.clone()),
            url,
            route,
            tasks,
            connect_limit,
        })))
    }

    /// Sends one request and comes back with the head of the answer. Dropping the future, or the
    /// body before its end, closes the connection.
    ///
    /// Answers of 307 and 308 that stay with the server are followed, for which the request is made
    /// anew; all others of 300 to 399 are answers like any other.
    pub(crate) async fn send(&self, make: impl Fn() -> Outgoing) -> Result<Incoming, HttpError> {
        let client = &self.0;
        let mut outgoing = make();
        let mut base = outgoing.url.take();
        let mut hops = 0;
        loop {
            let mut request = Request::new(Payload::new(outgoing.body));
            *request.method_mut() = outgoing.method;
            *request.uri_mut() = match &base {
                None => client.uri.clone(),
                Some(url) => client.uri_of(url)?,
            };
            *request.headers_mut() = client.head(outgoing.headers, outgoing.credential)?;
            let incoming = client.exchange(request).await?;
            let from = base.as_ref().unwrap_or(&client.url);
            match incoming.same_origin_redirect(from) {
                Some(next) if hops < REDIRECTS => {
                    base = Some(next);
                    hops += 1;
                    outgoing = make();
                }
                _ => return Ok(incoming),
            }
        }
    }
}

impl Client {
    /// All headers of a request.
    fn head(&self, mut headers: HeaderMap, credential: HeaderMap) -> Result<HeaderMap, HttpError> {
        if !credential.is_empty() && !self.is_private {
            let at = self.route.at.to_string();
            return Err(HttpError::not_sent(HttpErrorKind::PlainCredential { at }));
        }
        if let Some(name) = credential.keys().find(|name| is_reserved(name)) {
            let name = name.to_string();
            return Err(HttpError::not_sent(HttpErrorKind::ReservedHeader { name }));
        }
        headers.insert(HOST, self.host.clone());
        headers.insert(USER_AGENT, USER_AGENT_VALUE);
        headers.extend(credential);
        headers.insert(ACCEPT_ENCODING, GZIP);
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

    fn uri_of(&self, url: &Url) -> Result<Uri, HttpError> {
        if !redirect::is_same_origin(&self.url, url) {
            return Err(HttpError::not_sent(HttpErrorKind::OtherOrigin {
                at: self.route.at.to_string(),
                to: redirect::place(url),
            }));
        }
        let unwritable = HttpErrorKind::Address("the address cannot be written into a request");
        let uri = self.route.uri(url);
        uri.ok_or_else(|| HttpError::not_sent(unwritable))
    }

    /// One request and its answer. Only what hyper hands back untouched is sent on another
    /// connection.
    async fn exchange(&self, mut request: Request<Payload>) -> Result<Incoming, HttpError> {
        for _ in 0..STALE {
            let Some(connection) = self.pool.take().await else {
                break;
            };
            match self.try_on(connection, request).await? {
                Attempt::Answered(incoming) => return Ok(incoming),
                Attempt::Untouched(back, _) => request = back,
            }
        }
        let connection = self.route.connect(self.connect_limit, &self.tasks).await?;
        match self.try_on(connection, request).await? {
            Attempt::Answered(incoming) => Ok(incoming),
            Attempt::Untouched(_, kind) => Err(HttpError::not_sent(kind)),
        }
    }

    async fn try_on(
        &self,
        connection: Connection,
        request: Request<Payload>,
    ) -> Result<Attempt, HttpError> {
        let mut failure = match connection.request(request).await {
            Ok((response, connection)) => {
                let (head, body) = response.into_parts();
                let at = &self.route.at;
                let body = Body::new(body, &head.headers, connection, &self.pool, at);
                return Ok(Attempt::Answered(Incoming {
                    status: head.status,
                    headers: head.headers,
                    body,
                }));
            }
            Err(failure) => failure,
        };
        let kind = error::of_exchange(&self.route.at, failure.error(), false);
        match failure.take_message() {
            Some(request) => Ok(Attempt::Untouched(request, kind)),
            None => Err(HttpError::unknown(kind)),
        }
    }
}

enum Attempt {
    Answered(Incoming),
    /// Not a byte of it was taken.
    Untouched(Request<Payload>, HttpErrorKind),
}

impl Route {
    /// How an address of the server stands in a request.
    fn uri(&self, url: &Url) -> Option<Uri> {
        let is_whole = self.proxy.is_some() && !self.is_encrypted;
        let text = if is_whole {
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

/// Headers that say how the message is framed and where it goes next.
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
