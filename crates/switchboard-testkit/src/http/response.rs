//! Writes HTTP/1.1 responses by hand, so that a fault can cut them at any byte.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;

use super::fault::CannedResponse;
use crate::scripted::{Chunk, error_line};

/// The response cannot continue, because the client has disconnected or a fault cut the response.
#[derive(Debug)]
pub(crate) struct ConnectionCut;

/// How fast a response is sent, or after how many bytes it is cut.
#[derive(Debug, Clone, Copy)]
pub(super) enum SendRate {
    AtOnce,
    /// The response is sent in writes of at most `write_bytes` bytes, with a pause after each.
    Slow {
        write_bytes: usize,
        pause: Duration,
    },
    /// The response is cut after this many bytes, counted from the start of its head.
    CutAfter(usize),
}

/// Writes the responses of one connection.
#[derive(Debug)]
pub(crate) struct ResponseWriter {
    writer: OwnedWriteHalf,
    pub(super) rate: SendRate,
    /// The HTTP status of the current response; `None` before its head is sent.
    pub(super) status: Option<u16>,
}

impl ResponseWriter {
    pub(crate) fn new(writer: OwnedWriteHalf) -> Self {
        Self {
            writer,
            rate: SendRate::AtOnce,
            status: None,
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionCut> {
        match self.rate {
            SendRate::AtOnce => self.write(bytes).await,
            SendRate::Slow { write_bytes, pause } => {
                for part in bytes.chunks(write_bytes.max(1)) {
                    self.write(part).await?;
                    tokio::time::sleep(pause).await;
                }
                Ok(())
            }
            SendRate::CutAfter(left) => {
                let now = bytes.len().min(left);
                self.write(bytes.get(..now).unwrap_or_default()).await?;
                self.rate = SendRate::CutAfter(left - now);
                if now == left {
                    Err(ConnectionCut)
                } else {
                    Ok(())
                }
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionCut> {
        self.writer
            .write_all(bytes)
            .await
            .map_err(|_| ConnectionCut)
    }

    /// Shuts down the write half; the client may still send.
    pub(crate) async fn shutdown_write(&mut self) {
        let _ = self.writer.shutdown().await;
    }

    /// Prepares a reset of the connection. The kernel sends the reset when the read half is dropped
    /// too.
    pub(crate) fn reset(self) {
        let _ = self.writer.as_ref().set_zero_linger();
        // Dropping the write half would send a FIN before the reset.
        self.writer.forget();
    }

    /// Sends a complete response with a fixed body.
    pub(crate) async fn send_response(
        &mut self,
        response: &CannedResponse,
    ) -> Result<(), ConnectionCut> {
        self.status = Some(response.status);
        let mut bytes = head(response.status, &response.headers);
        if response.status != 204 {
            let length = response.body.len();
            let _ = write!(bytes, "Content-Length: {length}\r\n");
        }
        let mut bytes = (bytes + "\r\n").into_bytes();
        bytes.extend_from_slice(&response.body);
        self.send(&bytes).await
    }

    /// Sends the head of a response with a chunked body.
    pub(crate) async fn begin_chunks(
        &mut self,
        content_type: &str,
        headers: &[(String, String)],
    ) -> Result<(), ConnectionCut> {
        self.status = Some(200);
        let head = head(200, headers)
            + &format!(
                "Content-Type: {content_type}\r\nCache-Control: no-cache\r\n\
                 Transfer-Encoding: chunked\r\n\r\n"
            );
        self.send(head.as_bytes()).await
    }

    pub(crate) async fn chunk(&mut self, bytes: &[u8]) -> Result<(), ConnectionCut> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.send(&chunk).await
    }

    pub(crate) async fn end_chunks(&mut self) -> Result<(), ConnectionCut> {
        self.send(b"0\r\n\r\n").await
    }
}

fn head(status: u16, headers: &[(String, String)]) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}

impl CannedResponse {
    /// A response without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
        .with("Content-Type", "application/json")
    }

    /// A response whose body is a JSON-RPC error.
    pub(crate) fn error(status: u16, id: &Value, code: i64, message: &str) -> Self {
        Self::json(status, error_line(id, code, message, None))
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Encodes a chunk for an event stream. A line becomes an event with this id; bytes are copied
/// unchanged.
pub(super) fn as_event(chunk: &Chunk, id: Option<&str>) -> Vec<u8> {
    let line = match chunk {
        Chunk::Bytes(bytes) => return bytes.clone(),
        Chunk::Line(line) => line,
    };
    let mut event = String::from("event: message\n");
    if let Some(id) = id {
        let _ = writeln!(event, "id: {id}");
    }
    for part in line.split('\n') {
        let _ = writeln!(event, "data: {part}");
    }
    event.push('\n');
    event.into_bytes()
}
