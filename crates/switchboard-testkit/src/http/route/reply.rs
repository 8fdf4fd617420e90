//! Sends responses as JSON or as event streams, and runs the faults that occur after the request
//! was executed.

use std::time::Duration;

use serde_json::Value;

use crate::http::connection::{AfterResponse, Connection};
use crate::http::event_log::EventLogReader;
use crate::http::fault::{CannedResponse, Fault, FaultAction};
use crate::http::response::{ConnectionCut, as_event};
use crate::http::{ResponseFormat, headers};
use crate::scripted::Chunk;

/// A response that is being sent.
pub(super) struct Reply {
    pub(super) reader: EventLogReader,
    pub(super) headers: Vec<(String, String)>,
    pub(super) format: ResponseFormat,
    /// If true, events have ids, with which the client can resume the stream.
    pub(super) is_resumable: bool,
    /// The session scope and id of the request to cancel when the client disconnects. Only set for
    /// modern-era requests.
    pub(super) cancelled_by_disconnect: Option<(String, Value)>,
}

impl Connection {
    pub(super) async fn reply(
        &mut self,
        mut reply: Reply,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let outcome = self.send_reply(&mut reply, fault).await;
        if let Some((scope, id)) = &reply.cancelled_by_disconnect {
            self.run.driver.cancel(scope, id);
        }
        outcome
    }

    async fn send_reply(
        &mut self,
        reply: &mut Reply,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        match fault {
            Some(Fault {
                action: FaultAction::EndStream(retry),
                ..
            }) => {
                if !reply.is_resumable {
                    self.wait_for_response(&mut reply.reader).await?;
                }
                self.begin_events(reply).await?;
                if let Some(retry) = retry {
                    self.send_retry(*retry).await?;
                }
                self.sender.end_chunks().await?;
                return Ok(AfterResponse::Keep);
            }
            Some(fault) => {
                self.wait_for_response(&mut reply.reader).await?;
                return self.run_fault(fault).await;
            }
            None => {}
        }
        // A modern-era error may need its own HTTP status, so wait for the first chunk.
        let is_modern = reply.cancelled_by_disconnect.is_some();
        if reply.format == ResponseFormat::Sse && !is_modern {
            self.begin_events(reply).await?;
            return self
                .send_events(&mut reply.reader, reply.is_resumable)
                .await;
        }
        let Some((number, chunk)) = self.next(&mut reply.reader).await? else {
            return Err(ConnectionCut);
        };
        match FirstChunk::of(&chunk) {
            FirstChunk::Error(code) if is_modern && headers::status_of(code).is_some() => {
                let status = headers::status_of(code).unwrap_or(400);
                self.respond_with_line(status, reply, &chunk).await
            }
            FirstChunk::Error(_) | FirstChunk::Response if reply.format == ResponseFormat::Json => {
                self.respond_with_line(200, reply, &chunk).await
            }
            FirstChunk::Junk if reply.format == ResponseFormat::Json => {
                let sender = &mut self.sender;
                sender
                    .begin_chunks("application/json", &reply.headers)
                    .await?;
                sender.chunk(as_bytes(&chunk)).await?;
                while let Some((_, chunk)) = self.next(&mut reply.reader).await? {
                    self.sender.chunk(as_bytes(&chunk)).await?;
                }
                self.sender.end_chunks().await?;
                Ok(AfterResponse::Keep)
            }
            _ => {
                self.begin_events(reply).await?;
                self.send_event(&reply.reader, number, &chunk, reply.is_resumable)
                    .await?;
                self.send_events(&mut reply.reader, reply.is_resumable)
                    .await
            }
        }
    }

    async fn respond_with_line(
        &mut self,
        status: u16,
        reply: &Reply,
        chunk: &Chunk,
    ) -> Result<AfterResponse, ConnectionCut> {
        let mut response = CannedResponse::json(status, as_bytes(chunk));
        response.headers.extend(reply.headers.iter().cloned());
        self.respond(response).await
    }

    /// Sends the head of an event stream. If the protocol version requires it, an empty event
    /// follows, whose id lets the client resume the stream.
    async fn begin_events(&mut self, reply: &Reply) -> Result<(), ConnectionCut> {
        let headers = &reply.headers;
        self.sender
            .begin_chunks("text/event-stream", headers)
            .await?;
        if reply.is_resumable && self.state.starts_with_empty_event() {
            let first = format!("id: {}-0\ndata: \n\n", reply.reader.stream.number);
            self.sender.chunk(first.as_bytes()).await?;
        }
        match self.state.retry().filter(|_| reply.is_resumable) {
            Some(retry) => self.send_retry(retry).await,
            None => Ok(()),
        }
    }

    async fn send_retry(&mut self, retry: Duration) -> Result<(), ConnectionCut> {
        let line = format!("retry: {}\n\n", retry.as_millis());
        self.sender.chunk(line.as_bytes()).await
    }

    pub(super) async fn send_events(
        &mut self,
        reader: &mut EventLogReader,
        is_resumable: bool,
    ) -> Result<AfterResponse, ConnectionCut> {
        while let Some((number, chunk)) = self.next(reader).await? {
            self.send_event(reader, number, &chunk, is_resumable)
                .await?;
        }
        self.sender.end_chunks().await?;
        Ok(AfterResponse::Keep)
    }

    async fn send_event(
        &mut self,
        reader: &EventLogReader,
        number: u64,
        chunk: &Chunk,
        is_resumable: bool,
    ) -> Result<(), ConnectionCut> {
        let id = is_resumable.then(|| format!("{}-{number}", reader.stream.number));
        self.sender.chunk(&as_event(chunk, id.as_deref())).await
    }

    /// Returns the next chunk; `None` at the end of the stream. Fails if the client disconnects.
    async fn next(
        &mut self,
        reader: &mut EventLogReader,
    ) -> Result<Option<(u64, Chunk)>, ConnectionCut> {
        tokio::select! {
            biased;
            chunk = reader.next() => Ok(chunk),
            () = self.receiver.closed() => Err(ConnectionCut),
        }
    }

    /// Waits until the handler has written the response or the stream has ended.
    async fn wait_for_response(
        &mut self,
        reader: &mut EventLogReader,
    ) -> Result<(), ConnectionCut> {
        while let Some((_, chunk)) = self.next(reader).await? {
            if matches!(
                FirstChunk::of(&chunk),
                FirstChunk::Response | FirstChunk::Error(_)
            ) {
                break;
            }
        }
        Ok(())
    }
}

/// The kind of the first chunk of a response.
enum FirstChunk {
    Response,
    Error(i64),
    /// A notification or a request from the server to the client.
    ServerMessage,
    Junk,
}

impl FirstChunk {
    fn of(chunk: &Chunk) -> Self {
        let Chunk::Line(line) = chunk else {
            return Self::Junk;
        };
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return Self::Junk;
        };
        let code = message.get("error").and_then(|error| error.get("code"));
        if let Some(code) = code.and_then(Value::as_i64) {
            Self::Error(code)
        } else if message.get("method").is_some() {
            Self::ServerMessage
        } else {
            Self::Response
        }
    }
}

fn as_bytes(chunk: &Chunk) -> &[u8] {
    match chunk {
        Chunk::Line(line) => line.as_bytes(),
        Chunk::Bytes(bytes) => bytes,
    }
}
