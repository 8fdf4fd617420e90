//! A minimal HTTP client with timeouts. Tests can also send and read arbitrary bytes with it.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::http::HttpServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection to an HTTP server.
pub(crate) struct HttpClient {
    socket: TcpStream,
    buffer: Vec<u8>,
    headers: Vec<(String, String)>,
    last_id: u64,
    is_chunked: bool,
}

/// A response as received, with as much of the body as was read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter();
        let found = found.find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    /// Returns the data of all events in the body, as JSON. Events without data are left out.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| !data.is_empty())
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

impl HttpClient {
    pub(crate) async fn open(server: &HttpServer) -> Self {
        Self::connect(server.address()).await
    }

    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self {
            socket: within(TcpStream::connect(address)).await.unwrap(),
            buffer: Vec::new(),
            headers: Vec::new(),
            last_id: 0,
            is_chunked: false,
        }
    }

    /// Adds a header to every later request of this client.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        within(self.socket.write_all(bytes)).await
    }

    /// Sends an HTTP request with the given request line and does not read the response.
    pub(crate) async fn send(&mut self, line: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut text = format!("{line} HTTP/1.1\r\nHost: loopback\r\n");
        for (name, value) in headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let _ = write!(text, "Content-Length: {}\r\n\r\n", body.len());
        let bytes = [text.as_bytes(), body].concat();
        self.send_bytes(&bytes).await.unwrap();
    }

    pub(crate) async fn send_post(&mut self, path: &str, message: &Value) {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let body = message.to_string();
        self.send(&format!("POST {path}"), &headers, body.as_bytes())
            .await;
    }

    pub(crate) async fn send_get(&mut self, path: &str, headers: &[(&str, &str)]) {
        let headers = [headers, &[("Accept", "text/event-stream")]].concat();
        self.send(&format!("GET {path}"), &headers, b"").await;
    }

    pub(crate) fn message(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method});
        message["params"] = params;
        message
    }

    /// Posts a JSON-RPC message and reads the response.
    pub(crate) async fn post(&mut self, message: &Value) -> Response {
        self.send_post("/mcp", message).await;
        self.response().await.unwrap()
    }

    /// Sends a request of the legacy era and reads the response.
    pub(crate) async fn request_legacy(&mut self, method: &str, params: Value) -> Response {
        let message = self.message(method, params);
        self.post(&message).await
    }

    /// Sends a request of the modern era and reads the response.
    pub(crate) async fn request_modern(&mut self, method: &str, params: Value) -> Response {
        self.send_modern(method, params).await;
        self.response().await.unwrap()
    }

    pub(crate) async fn send_modern(&mut self, method: &str, mut params: Value) {
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        let name = ["name", "uri", "taskId"]
            .iter()
            .find_map(|key| params[key].as_str());
        let name = name.map(str::to_owned);
        headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = self.message(method, params).to_string();
        self.send("POST /mcp", &headers, body.as_bytes()).await;
    }

    /// Starts a legacy-era session and adds its id to all later requests.
    pub(crate) async fn initialize(&mut self) -> Response {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let response = self.request_legacy("initialize", params).await;
        if let Some(id) = response.header("mcp-session-id") {
            let id = id.to_owned();
            self.headers.push(("Mcp-Session-Id".to_owned(), id));
        }
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&initialized).await.status, 202);
        response
    }

    /// Opens another connection to the same server, with the same headers and therefore the same
    /// session.
    pub(crate) async fn another(&self) -> Self {
        let mut other = Self::connect(self.socket.peer_addr().unwrap()).await;
        other.headers.clone_from(&self.headers);
        other.last_id = self.last_id + 100;
        other
    }
}

/// Reading.
impl HttpClient {
    async fn read_more(&mut self) -> io::Result<()> {
        match within(self.socket.read_buf(&mut self.buffer)).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn read_past(&mut self, end: &str) -> io::Result<Vec<u8>> {
        loop {
            let at = self
                .buffer
                .windows(end.len())
                .position(|found| found == end.as_bytes());
            if let Some(at) = at {
                return Ok(self.buffer.drain(..at + end.len()).collect());
            }
            self.read_more().await?;
        }
    }

    async fn read_exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Reads the head of a response and leaves the body unread.
    pub(crate) async fn head(&mut self) -> io::Result<Response> {
        let head = String::from_utf8(self.read_past("\r\n\r\n").await?).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let response = Response {
            status: status.parse().unwrap(),
            headers,
            body: Vec::new(),
        };
        self.is_chunked = response.header("transfer-encoding").is_some();
        Ok(response)
    }

    /// The next chunk of the response whose head was read; `None` after the last chunk.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<String>> {
        assert!(self.is_chunked);
        let size = String::from_utf8(self.read_past("\r\n").await?).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let chunk = self.read_exactly(size + 2).await?;
        let chunk = String::from_utf8(chunk[..size].to_vec()).unwrap();
        Ok((size > 0).then_some(chunk))
    }

    /// Reads a response with its body.
    pub(crate) async fn response(&mut self) -> io::Result<Response> {
        let mut response = self.head().await?;
        if self.is_chunked {
            while let Some(chunk) = self.chunk().await? {
                response.body.extend(chunk.bytes());
            }
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().unwrap();
            response.body = self.read_exactly(length).await?;
        }
        Ok(response)
    }

    /// Reads until the connection ends. Returns the bytes read and the kind of the error that ended
    /// the connection.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, io::ErrorKind) {
        loop {
            if let Err(error) = self.read_more().await {
                return (std::mem::take(&mut self.buffer), error.kind());
            }
        }
    }
}

pub(crate) async fn within<T>(wait: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(TIMEOUT, wait).await;
    outcome.unwrap_or_else(|_| panic!("timed out"))
}
