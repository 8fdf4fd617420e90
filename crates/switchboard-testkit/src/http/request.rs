//! What a client sends: requests of HTTP/1.1, read by hand.

use std::io;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;

/// A longer head is none.
const MOST_HEAD: usize = 1024 * 1024;
/// More headers than this are none.
const MOST_HEADERS: usize = 256;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The method of HTTP.
    pub method: String,
    /// What was asked for, with its query.
    pub path: String,
    /// The headers in their order, with their names as they were written.
    pub headers: Vec<(String, String)>,
    /// The body, or as much of it as was read.
    pub body: Vec<u8>,
    /// Which connection it came on, counted from 1.
    pub connection: usize,
    /// Whether all of it was read.
    pub is_complete: bool,
    /// The status of the answer, once that is over.
    pub status: Option<u16>,
}

impl ReceivedRequest {
    /// The first header of that name, in whatever case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The protocol's method that the body asks for.
    pub fn rpc_method(&self) -> Option<String> {
        self.json().get("method")?.as_str().map(str::to_owned)
    }

    /// The names by which faults are armed.
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

    /// The method that half a body is about.
    fn guess_method(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.body);
        let rest = text.split_once("\"method\"")?.1;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let (method, _) = rest.strip_prefix('"')?.split_once('"')?;
        Some(method.to_owned())
    }

    /// How long the body is, if its length was announced.
    pub(crate) fn length(&self) -> Option<usize> {
        self.header("content-length")?.trim().parse().ok()
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    }
}

/// Reads the requests of one connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
    connection: usize,
}

impl Receiver {
    pub(crate) fn new(reader: OwnedReadHalf, connection: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            connection,
        }
    }

    /// Reads more; the new bytes. None at the end.
    pub(crate) async fn read_more(&mut self) -> io::Result<Option<&[u8]>> {
        let before = self.buffer.len();
        let read = self.reader.read_buf(&mut self.buffer).await?;
        Ok((read > 0).then(|| self.buffer.get(before..).unwrap_or_default()))
    }

    /// Reads one request to its end. None if the client has gone before.
    pub(crate) async fn read_request(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let mut seen = loop {
            if let Some(seen) = self.take_head()? {
                break seen;
            }
            if self.read_more().await?.is_none() {
                return Ok(None);
            }
        };
        let length = seen.length().unwrap_or(0);
        while !seen.is_complete {
            if !seen.is_chunked() {
                self.take_body(&mut seen, length);
                seen.is_complete = seen.body.len() == length;
            } else if let Some(chunk) = self.take_chunk()? {
                seen.is_complete = chunk.is_empty();
                seen.body.extend(chunk);
                continue;
            }
            if !seen.is_complete && self.read_more().await?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(seen))
    }

    /// Takes a head off the front of what has been read, if it is all there.
    pub(crate) fn take_head(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        let status = parsed.parse(&self.buffer).map_err(io::Error::other)?;
        let httparse::Status::Complete(length) = status else {
            return if self.buffer.len() > MOST_HEAD {
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
        let seen = ReceivedRequest {
            method: parsed.method.unwrap_or_default().to_owned(),
            path: parsed.path.unwrap_or_default().to_owned(),
            headers,
            body: Vec::new(),
            connection: self.connection,
            is_complete: false,
            status: None,
        };
        self.buffer.drain(..length);
        Ok(Some(seen))
    }

    /// Takes as much of the body as has been read, up to `most` bytes in all.
    pub(crate) fn take_body(&mut self, seen: &mut ReceivedRequest, most: usize) {
        let wanted = most.saturating_sub(seen.body.len());
        let now = wanted.min(self.buffer.len());
        seen.body.extend(self.buffer.drain(..now));
    }

    /// Takes one chunk, if it is all there. The last one is empty.
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

    /// Waits until there is something of the next request, or the end.
    pub(crate) async fn stirs(&mut self) {
        if self.buffer.is_empty() {
            let _ = self.reader.peek(&mut [0]).await;
        }
    }

    /// Waits until the client has closed its end. Never comes back if it sends something instead.
    pub(crate) async fn closed(&mut self) {
        let mut byte = [0];
        if let Ok(1..) = self.reader.peek(&mut byte).await {
            std::future::pending::<()>().await;
        }
    }

    /// What has been read and not taken is of no interest.
    pub(crate) fn forget_buffer(&mut self) {
        self.buffer.clear();
    }
}
