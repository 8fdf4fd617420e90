//! Opens a connection: DNS lookup, TCP, proxy tunnel, TLS, HTTP.
//!
//! Invariant: no byte of an MCP request is written here, so every error is [`Delivery::NotSent`].
//!
//! [`Delivery::NotSent`]: crate::delivery::Delivery::NotSent

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::TaskTracker;
use url::Host;

use super::error::{HttpError, HttpErrorKind, TlsProblem};
use super::network::{Network, Proxy};
use super::pool::Connection;
use super::tls::TlsConfig;
use crate::local_address::is_loopback;

/// Maximum size of hyper's read buffer.
const MAX_BUFFER_BYTES: usize = 256 * 1024;
/// Maximum size of the head (status line and headers) of a response.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long a connection attempt runs alone before the next address of the host is tried in
/// parallel (RFC 8305).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of addresses of a host that are tried. Further addresses are ignored.
const MAX_ADDRESSES: usize = 8;
/// Maximum size of a proxy's response to `CONNECT`.
const MAX_PROXY_RESPONSE_BYTES: usize = 8 * 1024;

/// Everything needed to open a connection to one server. All connections to the server share one
/// route.
pub(super) struct Route {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    pub(super) proxy: Option<Proxy>,
    pub(super) tls: TlsConfig,
    /// Caches the TLS connector, so that later connections resume the TLS session. Empty if `tls`
    /// names files: they are read again for each connection.
    pub(super) connector: OnceCell<TlsConnector>,
    pub(super) network: Arc<Network>,
    /// `host:port` of the server, for `CONNECT` and for errors.
    pub(super) address: Arc<str>,
}

impl Route {
    pub(super) async fn connect(
        &self,
        limit: Duration,
        tasks: &TaskTracker,
    ) -> Result<Connection, HttpError> {
        match timeout(limit, self.open(tasks)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(HttpError::not_sent(HttpErrorKind::ConnectTimeout {
                address: self.address.to_string(),
                limit,
            })),
        }
    }

    async fn open(&self, tasks: &TaskTracker) -> Result<Connection, HttpError> {
        let stream = match &self.proxy {
            Some(proxy) => {
                let connected = connect_tcp(&proxy.host, proxy.port).await;
                let mut stream =
                    connected.map_err(|error| self.proxy_error(proxy, error.to_string()))?;
                if self.is_encrypted {
                    self.open_tunnel(proxy, &mut stream).await?;
                }
                stream
            }
            None => connect_tcp(&self.host, self.port).await?,
        };
        if self.is_encrypted {
            let connector = self.tls_connector(tasks).await?;
            let name = match &self.host {
                Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| {
                    HttpError::not_sent(HttpErrorKind::InvalidConfig(
                        "the host in the URL is not a valid DNS name",
                    ))
                })?,
                Host::Ipv4(address) => IpAddr::V4(*address).into(),
                Host::Ipv6(address) => IpAddr::V6(*address).into(),
            };
            let stream = connector.connect(name, stream).await;
            let stream = stream.map_err(|error| {
                HttpError::not_sent(HttpErrorKind::Tls {
                    address: self.address.to_string(),
                    problem: TlsProblem::from_io(&error),
                })
            })?;
            self.start_http(stream, tasks).await
        } else {
            self.start_http(stream, tasks).await
        }
    }

    async fn start_http<S>(&self, stream: S, tasks: &TaskTracker) -> Result<Connection, HttpError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_BUFFER_BYTES)
            .max_header_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| {
                HttpError::not_sent(HttpErrorKind::Io {
                    address: self.address.to_string(),
                    error: error.to_string(),
                })
            })?;
        // Ignore the error of the connection: hyper reports it to the request in flight, too.
        let task = tasks.spawn(async move { drop(connection.await) });
        Ok(Connection::new(sender, task))
    }

    async fn tls_connector(&self, tasks: &TaskTracker) -> Result<TlsConnector, HttpError> {
        let build = || self.tls.connector(&self.network, tasks);
        if self.tls.has_files() {
            build().await
        } else {
            self.connector.get_or_try_init(build).await.cloned()
        }
    }

    fn proxy_error(&self, proxy: &Proxy, problem: String) -> HttpError {
        HttpError::not_sent(HttpErrorKind::Proxy {
            proxy: proxy.host_and_port(),
            address: self.address.to_string(),
            problem,
        })
    }

    /// Sends `CONNECT` to a proxy and waits for its response. The proxy learns only the host and
    /// port of the server.
    async fn open_tunnel(&self, proxy: &Proxy, stream: &mut TcpStream) -> Result<(), HttpError> {
        let failed = |problem| self.proxy_error(proxy, problem);
        let mut request =
            format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", self.address).into_bytes();
        if let Some(authorization) = &proxy.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let exchange = async {
            stream.write_all(&request).await?;
            read_response_head(stream).await
        };
        let head = exchange.await.map_err(|error| failed(error.to_string()))?;
        let status_line =
            String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or(&[]))
                .chars()
                .filter(|character| !character.is_control())
                .take(100)
                .collect::<String>();
        let status = status_line.split(' ').nth(1).unwrap_or_default();
        match status {
            _ if !status_line.starts_with("HTTP/1.") => {
                Err(failed("it does not speak HTTP".to_owned()))
            }
            "407" => Err(failed(
                "it requires a user name and password (HTTP 407); set them in its URL \
                 (`http://name:password@host:port`)"
                    .to_owned(),
            )),
            status if status.len() == 3 && status.starts_with('2') => Ok(()),
            _ => Err(failed(format!("it responded `{status_line}`"))),
        }
    }
}

/// Reads the head of the proxy's response. Reads byte by byte, because the bytes after the head
/// belong to the tunnel.
async fn read_response_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_PROXY_RESPONSE_BYTES {
            return Err(io::Error::other("its response is too long"));
        }
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(io::Error::other("it closed the connection"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

async fn connect_tcp(host: &Host<String>, port: u16) -> Result<TcpStream, HttpError> {
    let addresses = resolve(host, port).await?;
    let stream = connect_to_first(&addresses).await.map_err(|error| {
        HttpError::not_sent(HttpErrorKind::Connect {
            address: format!("{host}:{port}"),
            error: error.to_string(),
        })
    })?;
    // Disable Nagle's algorithm: a request is written at once, so waiting for more bytes only
    // delays it.
    stream.set_nodelay(true).ok();
    Ok(stream)
}

/// Returns at most `MAX_ADDRESSES` addresses of a host, alternating between IPv4 and IPv6.
async fn resolve(host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>, HttpError> {
    match host {
        Host::Ipv4(address) => Ok(vec![(*address, port).into()]),
        Host::Ipv6(address) => Ok(vec![(*address, port).into()]),
        // Do not query DNS for `localhost`. DNS could return a remote address, to which credentials
        // would be sent over unencrypted http, because `localhost` counts as this machine.
        host if is_loopback(host) => Ok(vec![
            (Ipv4Addr::LOCALHOST, port).into(),
            (Ipv6Addr::LOCALHOST, port).into(),
        ]),
        Host::Domain(name) => {
            let failed = |error: String| {
                HttpError::not_sent(HttpErrorKind::DnsLookup {
                    host: name.clone(),
                    error,
                })
            };
            let found = tokio::net::lookup_host((name.as_str(), port)).await;
            let found = found.map_err(|error| failed(error.to_string()))?;
            let found = alternate_families(found);
            if found.is_empty() {
                return Err(failed("it has no addresses".to_owned()));
            }
            Ok(found)
        }
    }
}

fn alternate_families(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let (mut first, mut second): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for address in addresses {
        let is_first = first
            .first()
            .is_none_or(|other: &SocketAddr| other.is_ipv4() == address.is_ipv4());
        if is_first { &mut first } else { &mut second }.push(address);
    }
    let mut second = second.into_iter();
    let mut alternating = Vec::new();
    for address in first {
        alternating.push(address);
        alternating.extend(second.next());
    }
    alternating.extend(second);
    alternating.truncate(MAX_ADDRESSES);
    alternating
}

/// Tries the addresses and returns the first connection that is established. Starts the next
/// attempt [`ATTEMPT_DELAY`] after the previous one, or as soon as an attempt fails.
async fn connect_to_first(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut untried = addresses.iter();
    let mut attempts = FuturesUnordered::new();
    let mut first_error = None;
    loop {
        if let Some(address) = untried.next() {
            attempts.push(TcpStream::connect(*address));
        }
        let next_attempt = async {
            if untried.len() == 0 {
                std::future::pending::<()>().await;
            } else {
                sleep(ATTEMPT_DELAY).await;
            }
        };
        tokio::select! {
            biased;
            Some(outcome) = attempts.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => first_error = first_error.or(Some(error)),
            },
            () = next_attempt => {}
            else => {}
        }
        if attempts.is_empty() && untried.len() == 0 {
            return Err(first_error.unwrap_or_else(|| io::Error::other("it has no addresses")));
        }
    }
}
