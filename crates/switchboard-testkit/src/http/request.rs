//! Parses HTTP/1.1 requests.

use std::io;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;

/// Maximum size of a request head. A longer head is an error.
const MAX_HEAD_BYTES: usize = 1024 * 1024;
/// Maximum number of headers of a request. More headers are an error.
const MAX_HEADERS: usize = 256;

/// An HTTP request as the server received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The HTTP method.
    pub method: String,
    /// The path with its query, as in the request line.
    pub path: String,
    /// The headers in order, with the original spelling of their names.
    pub headers: Vec<(String, String)>,
    /// The part of the body that was read, without chunk headers.
    pub body: Vec<u8>,
    /// The number of the connection that carried the request, counted from 1.
    pub connection: usize,
    /// True if the server read the whole body.
    pub is_complete: bool,
    /// The status of the response. `None` until the response was sent, or if the response has no
    /// status.
    pub status: Option<u16>,
}

impl ReceivedRequest {
    /// The value of the first header with that name. Case is ignored.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The MCP method in the body; `None` if the body is incomplete, not JSON or has no method.
    pub fn rpc_method(&self) -> Option<String> {
        self.json().get("method")?.as_str().map(str::to_owned)
    }

    /// The names by which [`Fault::on`](super::Fault::on) can select this request.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = vec![self.method.clone()];
        let message = self.json();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        if let Some(method) = text(message.get("method")) {
            let params = message.get("params");
            let keys = ["name", "uri", "taskId"];
            let subject = params.and_then(|params| keys.iter().find_map(|key| params.get(key)));
            names.extend(text(subject).map(|subject| format!("{method} {subject}")));
            names.push(method);
        } else if message.get("id").is_some() {
            names.push("response".to_owned());
        } else if !self.is_complete {
            names.extend(self.guess_method());
        }
        names
    }

    /// Returns the MCP method in an incomplete body, if the bytes that arrived contain it.
    fn guess_method(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.body);
        let rest = text.split_once("\"method\"")?.1;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let (method, _) = rest.strip_prefix('"')?.split_once('"')?;
        Some(method.to_owned())
    }

    /// The value of `Content-Length`, if present and a number.
    pub(crate) fn length(&self) -> Option<usize> {
        self.header("content-length")?.trim().parse().ok()
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    }
}

/// Reads and parses the requests of one connection.
#[derive(Debug)]
pub(crate) struct RequestReader {
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
    connection: usize,
}

impl RequestReader {
    pub(crate) fn new(reader: OwnedReadHalf, connection: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            connection,
        }
    }

    /// Reads more bytes from the socket and returns them; `None` at EOF.
    pub(crate) async fn read_more(&mut self) -> io::Result<Option<&[u8]>> {
        let before = self.buffer.len();
        let read = self.reader.read_buf(&mut self.buffer).await?;
        Ok((read > 0).then(|| self.buffer.get(before..).unwrap_or_default()))
    }

    /// Reads one complete request. Returns `None` if the client disconnects before the end of the
    /// request.
    pub(crate) async fn read_request(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let mut request = loop {
            if let Some(request) = self.take_head()? {
                break request;
            }
            if self.read_more().await?.is_none() {
                return Ok(None);
            }
        };
        let length = request.length().unwrap_or(0);
        while !request.is_complete {
            if !request.is_chunked() {
                self.take_body(&mut request, length);
                request.is_complete = request.body.len() == length;
            } else if let Some(chunk) = self.take_chunk()? {
                request.is_complete = chunk.is_empty();
                request.body.extend(chunk);
                continue;
            }
            if !request.is_complete && self.read_more().await?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(request))
    }

    /// Takes a request head from the buffer, or returns `None` if the head is incomplete.
    pub(crate) fn take_head(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        let status = parsed.parse(&self.buffer).map_err(io::Error::other)?;
        let httparse::Status::Complete(length) = status else {
            return if self.buffer.len() > MAX_HEAD_BYTES {
                Err(io::Error::other("the head is too long"))
            } else {
                Ok(None)
            };
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = parsed
            .headers
            .iter()
            .map(|header| (header.name.to_owned(), text(header.value)))
            .collect();
        let request = ReceivedRequest {
            method: parsed.method.unwrap_or_default().to_owned(),
            path: parsed.path.unwrap_or_default().to_owned(),
            headers,
            body: Vec::new(),
            connection: self.connection,
            is_complete: false,
            status: None,
        };
        self.buffer.drain(..length);
        Ok(Some(request))
    }

    /// Moves body bytes from the buffer to the request, until its body has `max` bytes.
    pub(crate) fn take_body(&mut self, request: &mut ReceivedRequest, max: usize) {
        let wanted = max.saturating_sub(request.body.len());
        let now = wanted.min(self.buffer.len());
        request.body.extend(self.buffer.drain(..now));
    }

    /// Takes one chunk of a chunked body from the buffer, or returns `None` if the chunk is
    /// incomplete. The last chunk of a body is empty.
    pub(crate) fn take_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = httparse::parse_chunk_size(&self.buffer)
            .map_err(|_| io::Error::other("not the size of a chunk"))?;
        let httparse::Status::Complete((begin, size)) = size else {
            return Ok(None);
        };
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let end = begin + size;
        if self.buffer.len() < end + 2 {
            return Ok(None);
        }
        let chunk = self.buffer.get(begin..end).unwrap_or_default().to_vec();
        self.buffer.drain(..end + 2);
        Ok(Some(chunk))
    }

    /// Waits until the client sends bytes or closes its end.
    pub(crate) async fn wait_readable(&mut self) {
        if self.buffer.is_empty() {
            let _ = self.reader.peek(&mut [0]).await;
        }
    }

    /// Waits until the client closes its end. If the client sends another byte first, the future
    /// never completes.
    pub(crate) async fn closed(&mut self) {
        let mut byte = [0];
        if let Ok(1..) = self.reader.peek(&mut byte).await {
            std::future::pending::<()>().await;
        }
    }

    /// Drops the received bytes that were not parsed yet.
    pub(crate) fn discard_buffer(&mut self) {
        self.buffer.clear();
    }
}
