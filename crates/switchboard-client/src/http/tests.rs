//! The client against servers that are written by hand, byte by byte, on loopback.

mod delivery;
mod exchange;
mod hostile;
mod proxies;
mod redirects;
mod tls;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;
use url::Url;

use super::network::Network;
use super::{HttpClient, HttpError, Incoming, Outgoing, Target, TlsConfig};
use switchboard_wire::memory_budget::MemoryBudget;
use switchboard_wire::sync::lock;

const SECRET: &str = "Bearer very-secret";
const LIMIT: usize = 4 * 1024 * 1024;
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// A server whose every connection follows a script.
struct Server {
    address: SocketAddr,
    /// How many connections were made to it.
    connections: Arc<AtomicUsize>,
    /// All bytes that it read, of all connections.
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    /// `script` is given each connection, and which one it is.
    async fn start<F, S>(script: F) -> Self
    where
        F: Fn(Peer, usize) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        Self::start_at("127.0.0.1:0", script).await
    }

    async fn start_at<F, S>(address: &str, script: F) -> Self
    where
        F: Fn(Peer, usize) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            seen: Arc::default(),
        };
        let (count, seen) = (Arc::clone(&server.connections), Arc::clone(&server.seen));
        TaskTracker::new().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let peer = Peer {
                    stream,
                    buffer: Vec::new(),
                    seen: Arc::clone(&seen),
                };
                TaskTracker::new().spawn(script(peer, number));
            }
        });
        server
    }

    /// Answers every request with the same bytes.
    async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::start(move |mut peer, _| {
            let answer = Arc::clone(&answer);
            async move {
                while peer.request().await.is_some() {
                    peer.write(&answer).await;
                }
            }
        })
        .await
    }

    fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    fn client(&self) -> HttpClient {
        client(self.url("/mcp"))
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&lock(&self.seen)).into_owned()
    }
}

/// The other end of a connection.
struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Peer {
    /// The next request, head and body; none when the client closed the connection.
    async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(length) = whole_request(&self.buffer) {
                let request = self.buffer.drain(..length).collect();
                return Some(String::from_utf8(request).unwrap());
            }
            self.more().await?;
        }
    }

    /// Waits for some more bytes.
    async fn more(&mut self) -> Option<()> {
        let before = self.buffer.len();
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => {
                lock(&self.seen).extend_from_slice(&self.buffer[before..]);
                Some(())
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.ok();
    }

    /// Waits until the client has closed the connection.
    async fn until_closed(&mut self) {
        while self.more().await.is_some() {}
    }

    /// Ends the connection with a reset.
    fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

fn whole_request(buffer: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(buffer);
    let head = text.find("\r\n\r\n")? + 4;
    let length = text.lines().find_map(|line| {
        let value = line.strip_prefix("content-length: ")?;
        value.parse::<usize>().ok()
    });
    let whole = head + length.unwrap_or(0);
    (buffer.len() >= whole).then_some(whole)
}

fn client(url: Url) -> HttpClient {
    client_with(url, TlsConfig::default(), Network::new())
}

fn client_with(url: Url, tls: TlsConfig, network: Network) -> HttpClient {
    let target = Target { url, tls };
    HttpClient::new(target, Arc::new(network), CONNECT_LIMIT, TaskTracker::new()).unwrap()
}

fn post(body: &str) -> impl Fn() -> Outgoing {
    let body = Bytes::copy_from_slice(body.as_bytes());
    move || Outgoing {
        method: Method::POST,
        url: None,
        headers: HeaderMap::new(),
        credential: HeaderMap::new(),
        body: body.clone(),
    }
}

fn secret_post(body: &str) -> impl Fn() -> Outgoing {
    let make = post(body);
    move || {
        let mut request = make();
        let mut value = HeaderValue::from_static(SECRET);
        value.set_sensitive(true);
        request.credential.insert("authorization", value);
        request
    }
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn text(mut incoming: Incoming) -> String {
    let body = incoming
        .body
        .collect(LIMIT, &MemoryBudget::new(LIMIT))
        .await;
    String::from_utf8(body.unwrap().0.to_vec()).unwrap()
}

/// The error of a request, wherever it turns up.
async fn failure(client: &HttpClient, request: impl Fn() -> Outgoing) -> HttpError {
    let mut incoming = match client.send(request).await {
        Ok(incoming) => incoming,
        Err(error) => return error,
    };
    loop {
        match incoming.body.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it was answered: {}", incoming.status),
            Err(error) => return error,
        }
    }
}
