//! Tests of the HTTP client against loopback servers that exchange raw bytes.

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
use super::{
    HttpClient, HttpError, HttpRequest, HttpResponse, Redirects, SentFlag, Target, TlsConfig,
};
use switchboard_wire::memory_budget::MemoryBudget;
use switchboard_wire::sync::lock;

const SECRET: &str = "Bearer very-secret";
const LIMIT: usize = 4 * 1024 * 1024;
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// A loopback server that runs the same script on each connection.
struct Server {
    address: SocketAddr,
    /// Number of connections that the server has accepted.
    connections: Arc<AtomicUsize>,
    /// All bytes that the server has read, in the order of reading.
    received: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    /// Starts a server on a free port. `script` receives each connection and its index.
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
            received: Arc::default(),
        };
        let count = Arc::clone(&server.connections);
        let received = Arc::clone(&server.received);
        TaskTracker::new().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let index = count.fetch_add(1, Ordering::SeqCst);
                let peer = Peer {
                    stream,
                    buffer: Vec::new(),
                    received: Arc::clone(&received),
                };
                TaskTracker::new().spawn(script(peer, index));
            }
        });
        server
    }

    /// Starts a server that responds to every request with the same bytes.
    async fn responding(response: impl Into<Vec<u8>>) -> Self {
        let response = Arc::new(response.into());
        Self::start(move |mut peer, _| {
            let response = Arc::clone(&response);
            async move {
                while peer.request().await.is_some() {
                    peer.write(&response).await;
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

    fn received(&self) -> String {
        String::from_utf8_lossy(&lock(&self.received)).into_owned()
    }
}

/// One connection, seen from the server.
struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Peer {
    /// Reads the next request, head and body. Returns `None` if the client closed the connection.
    async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(length) = request_length(&self.buffer) {
                let request = self.buffer.drain(..length).collect();
                return Some(String::from_utf8(request).unwrap());
            }
            self.read_more().await?;
        }
    }

    /// Reads more bytes from the client into the buffer. Returns `None` at the end of the stream.
    async fn read_more(&mut self) -> Option<()> {
        let before = self.buffer.len();
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => {
                lock(&self.received).extend_from_slice(&self.buffer[before..]);
                Some(())
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.ok();
    }

    /// Waits until the client closes the connection.
    async fn wait_until_closed(&mut self) {
        while self.read_more().await.is_some() {}
    }

    /// Closes the connection with a TCP reset.
    fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// Returns the length of the first request in the buffer; `None` if it has not arrived completely.
fn request_length(buffer: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(buffer);
    let head_length = text.find("\r\n\r\n")? + 4;
    let body_length = text.lines().find_map(|line| {
        let value = line.strip_prefix("content-length: ")?;
        value.parse::<usize>().ok()
    });
    let length = head_length + body_length.unwrap_or(0);
    (buffer.len() >= length).then_some(length)
}

fn client(url: Url) -> HttpClient {
    client_with(url, TlsConfig::default(), Network::new())
}

fn client_with(url: Url, tls: TlsConfig, network: Network) -> HttpClient {
    let target = Target { url, tls };
    HttpClient::new(target, Arc::new(network), CONNECT_LIMIT, TaskTracker::new()).unwrap()
}

fn post(body: &str) -> impl Fn() -> HttpRequest {
    let body = Bytes::copy_from_slice(body.as_bytes());
    move || HttpRequest {
        method: Method::POST,
        url: None,
        headers: HeaderMap::new(),
        credential: HeaderMap::new(),
        body: body.clone(),
        redirects: Redirects::Follow,
        sent: SentFlag::default(),
    }
}

fn secret_post(body: &str) -> impl Fn() -> HttpRequest {
    let make_request = post(body);
    move || {
        let mut request = make_request();
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

async fn read_text(mut response: HttpResponse) -> String {
    let body = response
        .body
        .collect(LIMIT, &MemoryBudget::new(LIMIT))
        .await;
    String::from_utf8(body.unwrap().0.to_vec()).unwrap()
}

/// Sends a request and returns its error. If the request succeeds, reads the response body and
/// returns the error of reading.
async fn expect_error(client: &HttpClient, request: impl Fn() -> HttpRequest) -> HttpError {
    let mut response = match client.send(request).await {
        Ok(response) => response,
        Err(error) => return error,
    };
    loop {
        match response.body.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("complete response: {}", response.status),
            Err(error) => return error,
        }
    }
}
