//! One connection: the name looked up, TCP, the proxy's consent, TLS, HTTP.
//!
//! All of it happens before a byte of a request is written, so every failure here is *not sent*.

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
use super::network::{Network, Proxy, is_loopback};
use super::pool::Connection;
use super::tls::TlsConfig;

/// How much of an answer is read at a time at most, and how long its head may be therefore.
const READ_BUFFER: usize = 256 * 1024;
/// How long the head of an answer may be.
const HEAD_BYTES: usize = 64 * 1024;
/// How long an address may keep us waiting before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(250);
/// How many addresses of one name are tried.
const ADDRESSES: usize = 8;
/// How long the answer of a proxy may be.
const PROXY_ANSWER: usize = 8 * 1024;

/// The way to one server, the same for all its connections.
pub(super) struct Route {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    pub(super) proxy: Option<Proxy>,
    pub(super) tls: TlsConfig,
    /// Kept where nothing of it can change, so that later connections resume the first one's keys.
    pub(super) connector: OnceCell<TlsConnector>,
    pub(super) network: Arc<Network>,
    /// `host:port`, for messages.
    pub(super) at: Arc<str>,
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
                at: self.at.to_string(),
                limit,
            })),
        }
    }

    async fn open(&self, tasks: &TaskTracker) -> Result<Connection, HttpError> {
        let stream = match &self.proxy {
            Some(proxy) => {
                let dialed = dial(&proxy.host, proxy.port).await;
                let mut stream = dialed.map_err(|error| self.refused(proxy, error.to_string()))?;
                if self.is_encrypted {
                    self.ask(proxy, &mut stream).await?;
                }
                stream
            }
            None => dial(&self.host, self.port).await?,
        };
        if self.is_encrypted {
            let connector = self.connector(tasks).await?;
            let name = match &self.host {
                Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| {
                    HttpError::not_sent(HttpErrorKind::Address(
                        "the host of the address is no name that a certificate can be for",
                    ))
                })?,
                Host::Ipv4(address) => IpAddr::V4(*address).into(),
                Host::Ipv6(address) => IpAddr::V6(*address).into(),
            };
            let stream = connector.connect(name, stream).await;
            let stream = stream.map_err(|error| {
                HttpError::not_sent(HttpErrorKind::Tls {
                    at: self.at.to_string(),
                    problem: TlsProblem::of(&error),
                })
            })?;
            self.serve(stream, tasks).await
        } else {
            self.serve(stream, tasks).await
        }
    }

    async fn serve<S>(&self, stream: S, tasks: &TaskTracker) -> Result<Connection, HttpError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(READ_BUFFER)
            .max_header_size(HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| {
                HttpError::not_sent(HttpErrorKind::Broken {
                    at: self.at.to_string(),
                    error: error.to_string(),
                })
            })?;
        // What goes wrong on it is told to whoever waits for an answer.
        let task = tasks.spawn(async move { drop(connection.await) });
        Ok(Connection::new(sender, task))
    }

    async fn connector(&self, tasks: &TaskTracker) -> Result<TlsConnector, HttpError> {
        let made = || self.tls.connector(&self.network, tasks);
        if self.tls.has_files() {
            made().await
        } else {
            self.connector.get_or_try_init(made).await.cloned()
        }
    }

    fn refused(&self, proxy: &Proxy, answer: String) -> HttpError {
        HttpError::not_sent(HttpErrorKind::Proxy {
            proxy: proxy.host_and_port(),
            at: self.at.to_string(),
            answer,
        })
    }

    /// Asks a proxy for a tunnel to the server. It learns the name of the server and nothing else.
    async fn ask(&self, proxy: &Proxy, stream: &mut TcpStream) -> Result<(), HttpError> {
        let refused = |answer| self.refused(proxy, answer);
        let mut question = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", self.at).into_bytes();
        if let Some(authorization) = &proxy.authorization {
            question.extend_from_slice(b"Proxy-Authorization: ");
            question.extend_from_slice(authorization.as_bytes());
            question.extend_from_slice(b"\r\n");
        }
        question.extend_from_slice(b"\r\n");
        let exchange = async {
            stream.write_all(&question).await?;
            head_of_answer(stream).await
        };
        let head = exchange.await.map_err(|error| refused(error.to_string()))?;
        let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or(&[]))
            .chars()
            .filter(|character| !character.is_control())
            .take(100)
            .collect::<String>();
        let status = line.split(' ').nth(1).unwrap_or_default();
        match status {
            _ if !line.starts_with("HTTP/1.") => Err(refused("it does not speak HTTP".to_owned())),
            "407" => Err(refused(
                "it wants a name and a password (407): write them into its address, as \
                 `http://name:password@host:port`"
                    .to_owned(),
            )),
            status if status.len() == 3 && status.starts_with('2') => Ok(()),
            _ => Err(refused(format!("it answered `{line}`"))),
        }
    }
}

/// Byte by byte, because what comes after the head is not for us.
async fn head_of_answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == PROXY_ANSWER {
            return Err(io::Error::other("its answer is too long"));
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

async fn dial(host: &Host<String>, port: u16) -> Result<TcpStream, HttpError> {
    let addresses = addresses(host, port).await?;
    let stream = race(&addresses).await.map_err(|error| {
        HttpError::not_sent(HttpErrorKind::Connect {
            at: format!("{host}:{port}"),
            error: error.to_string(),
        })
    })?;
    // Requests are written in one piece: there is nothing to wait for.
    stream.set_nodelay(true).ok();
    Ok(stream)
}

/// Where a host is, the two families in turn.
async fn addresses(host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>, HttpError> {
    match host {
        Host::Ipv4(address) => Ok(vec![(*address, port).into()]),
        Host::Ipv6(address) => Ok(vec![(*address, port).into()]),
        // Nobody else's word for it: credentials go there over plain http.
        host if is_loopback(host) => Ok(vec![
            (Ipv4Addr::LOCALHOST, port).into(),
            (Ipv6Addr::LOCALHOST, port).into(),
        ]),
        Host::Domain(name) => {
            let failed = |error: String| {
                HttpError::not_sent(HttpErrorKind::Lookup {
                    host: name.clone(),
                    error,
                })
            };
            let found = tokio::net::lookup_host((name.as_str(), port)).await;
            let found = found.map_err(|error| failed(error.to_string()))?;
            let found = in_turn(found);
            if found.is_empty() {
                return Err(failed("it has no address".to_owned()));
            }
            Ok(found)
        }
    }
}

fn in_turn(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let (mut first, mut second): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for address in found {
        let is_first = first
            .first()
            .is_none_or(|other: &SocketAddr| other.is_ipv4() == address.is_ipv4());
        if is_first { &mut first } else { &mut second }.push(address);
    }
    let mut seconds = second.into_iter();
    let mut turns = Vec::new();
    for address in first {
        turns.push(address);
        turns.extend(seconds.next());
    }
    turns.extend(seconds);
    turns.truncate(ADDRESSES);
    turns
}

/// The first address that answers. Each gets a head start on the next.
async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter();
    let mut trying = FuturesUnordered::new();
    let mut failed = None;
    loop {
        if let Some(address) = waiting.next() {
            trying.push(TcpStream::connect(*address));
        }
        let patience = async {
            if waiting.len() == 0 {
                std::future::pending::<()>().await;
            } else {
                sleep(HEAD_START).await;
            }
        };
        tokio::select! {
            biased;
            Some(outcome) = trying.next() => match outcome {
                Ok(stream) => return Ok(stream),
                // The first is the one that people expect.
                Err(error) => failed = failed.or(Some(error)),
            },
            () = patience => {}
            else => {}
        }
        if trying.is_empty() && waiting.len() == 0 {
            return Err(failed.unwrap_or_else(|| io::Error::other("it has no address")));
        }
    }
}
