//! Which answer a request gets: the rules of the transports, in both eras.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::connection::{AfterResponse, Connection};
use super::event_log::{EventLog, EventLogReader, ResponseStream};
use super::fault::{CannedResponse, Fault, FaultAction};
use super::headers;
use super::request::ReceivedRequest;
use super::response::{ConnectionCut, as_event};
use super::session::Session;
use super::{Mode, ResponseFormat};
use crate::scripted::{Chunk, Message, Request};

const INVALID_REQUEST: i64 = -32600;
const NO_SESSION: i64 = -32000;
const HEADER_MISMATCH: i64 = -32020;

/// An answer that is being made.
struct Reply {
    reader: EventLogReader,
    headers: Vec<(String, String)>,
    format: ResponseFormat,
    /// Whether its events have ids, by which they can be asked for again.
    has_ids: bool,
    /// What a disconnect cancels: the modern revision has no other way.
    cancelled_by_disconnect: Option<(String, Value)>,
}

impl Connection {
    /// ResponseFormat a request. A fault that is given comes after it was carried out.
    pub(super) async fn route(
        &mut self,
        seen: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        if let Some(challenge) = self.inner.challenge_to(seen) {
            let refusal = CannedResponse::bare(401).with("WWW-Authenticate", &challenge);
            return self.say(refusal).await;
        }
        let path = seen.path.split('?').next().unwrap_or_default();
        match (self.inner.mode, seen.method.as_str(), path) {
            (Mode::Streamable { .. }, "POST", "/mcp") => self.post(seen, fault).await,
            (Mode::Streamable { .. }, "GET", "/mcp") => self.listen(seen, fault).await,
            (Mode::Streamable { .. }, "DELETE", "/mcp") => self.delete(seen).await,
            (Mode::LegacySse, "GET", "/sse") => self.open_sse(fault).await,
            (Mode::LegacySse, "POST", "/message") => self.post_message(seen, fault).await,
            (_, _, "/mcp" | "/sse" | "/message") => self.say(CannedResponse::bare(405)).await,
            _ => self.say(CannedResponse::bare(404)).await,
        }
    }

    async fn post(
        &mut self,
        seen: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        if let Some(refusal) = headers::refuse_post(seen) {
            return self.say(refusal).await;
        }
        match Message::read(&seen.body) {
            Message::Invalid { code, reason } => self.refuse(400, &Value::Null, code, reason).await,
            Message::Request(request) if self.life.player.is_modern(&request) => {
                self.post_modern(seen, request, fault).await
            }
            Message::Request(request) => self.post_legacy(seen, request, fault).await,
            Message::Notification { method, params } => {
                let Some(session) = self.session_of(seen) else {
                    return self.refuse_session(seen, &Value::Null).await;
                };
                let notification = Request::notification(&method, &params);
                self.heed(&session, &notification);
                self.accept(fault).await
            }
            Message::Response(response) => {
                if self.session_of(seen).is_none() {
                    return self.refuse_session(seen, &Value::Null).await;
                }
                self.life.player.deliver(response);
                self.accept(fault).await
            }
        }
    }

    /// What was sent asks for no answer.
    async fn accept(&mut self, fault: Option<&Fault>) -> Result<AfterResponse, ConnectionCut> {
        match fault {
            Some(fault) => self.misbehave(fault).await,
            None => self.say(CannedResponse::bare(202)).await,
        }
    }

    fn heed(&self, session: &Session, notification: &Request) {
        let voice = ResponseStream {
            own: Arc::clone(&session.unasked),
            unasked: Some(Arc::clone(&session.unasked)),
            is_shared: true,
        };
        let player = &self.life.player;
        player.heed(&session.id, notification, Arc::new(voice));
    }
}

/// The modern revision: every request for itself.
impl Connection {
    async fn post_modern(
        &mut self,
        seen: &ReceivedRequest,
        request: Request,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        if let Some(mismatch) = headers::find_mismatch(seen, &request) {
            return self
                .refuse(400, &request.id, HEADER_MISMATCH, &mismatch)
                .await;
        }
        let Mode::Streamable { format, .. } = self.inner.mode else {
            return self.say(CannedResponse::bare(405)).await;
        };
        let scope = self.life.unique("request");
        let id = request.id.clone();
        let is_listening = request.method == "subscriptions/listen";
        let stream = EventLog::new(0, false);
        let reply = Reply {
            reader: stream.read_behind(None),
            headers: Vec::new(),
            format: if is_listening {
                ResponseFormat::Sse
            } else {
                format
            },
            has_ids: false,
            cancelled_by_disconnect: Some((scope.clone(), id)),
        };
        let voice = ResponseStream {
            own: stream,
            unasked: None,
            is_shared: false,
        };
        let _open = is_listening.then(|| self.inner.count_stream());
        self.life.player.answer(&scope, request, Arc::new(voice));
        self.reply(reply, fault).await
    }
}

/// The legacy revisions: sessions, and streams that can be resumed.
impl Connection {
    /// The session that a request belongs to; none if it names none, or one that is not known.
    fn session_of(&self, seen: &ReceivedRequest) -> Option<Arc<Session>> {
        match self.inner.mode {
            Mode::Streamable { session: true, .. } => {
                self.life.session(seen.header("mcp-session-id")?)
            }
            _ => Some(self.life.common_session()),
        }
    }

    async fn refuse_session(
        &mut self,
        seen: &ReceivedRequest,
        id: &Value,
    ) -> Result<AfterResponse, ConnectionCut> {
        if seen.header("mcp-session-id").is_some() {
            self.refuse(404, id, NO_SESSION, "no such session").await
        } else {
            let reason = "a session id is required";
            self.refuse(400, id, NO_SESSION, reason).await
        }
    }

    async fn post_legacy(
        &mut self,
        seen: &ReceivedRequest,
        request: Request,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let Mode::Streamable {
            format,
            session,
            get_stream,
        } = self.inner.mode
        else {
            return self.say(CannedResponse::bare(405)).await;
        };
        let mut headers = Vec::new();
        let session = if request.method == "initialize" && session {
            let session = self.life.open_session();
            headers.push(("Mcp-Session-Id".to_owned(), session.id.clone()));
            session
        } else if let Some(session) = self.session_of(seen) {
            if let Some(refusal) = headers::refuse_version(seen, &request) {
                return self.say(refusal).await;
            }
            session
        } else if self.inner.meets_probe(&request) {
            self.life.common_session()
        } else {
            return self.refuse_session(seen, &request.id).await;
        };
        let stream = session.open_stream();
        let reply = Reply {
            reader: stream.read_behind(None),
            headers,
            format,
            has_ids: true,
            cancelled_by_disconnect: None,
        };
        let voice = ResponseStream {
            own: stream,
            unasked: get_stream.then(|| Arc::clone(&session.unasked)),
            is_shared: false,
        };
        let player = &self.life.player;
        player.answer(&session.id, request, Arc::new(voice));
        self.reply(reply, fault).await
    }

    async fn listen(
        &mut self,
        seen: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let Mode::Streamable { get_stream, .. } = self.inner.mode else {
            return self.say(CannedResponse::bare(405)).await;
        };
        let resumed = seen.header("last-event-id");
        if self.inner.is_modern_only() || (!get_stream && resumed.is_none()) {
            return self
                .say(CannedResponse::bare(405).with("Allow", "POST"))
                .await;
        }
        if !headers::accepts(seen, "text/event-stream") {
            return self.say(CannedResponse::bare(406)).await;
        }
        let Some(session) = self.session_of(seen) else {
            return self.refuse_session(seen, &Value::Null).await;
        };
        let reader = resumed
            .and_then(|event| session.resume(event))
            .unwrap_or_else(|| session.unasked.read_behind(None));
        let reply = Reply {
            reader,
            headers: Vec::new(),
            format: ResponseFormat::Sse,
            has_ids: true,
            cancelled_by_disconnect: None,
        };
        let _open = self.inner.count_stream();
        self.reply(reply, fault).await
    }

    async fn delete(&mut self, seen: &ReceivedRequest) -> Result<AfterResponse, ConnectionCut> {
        let ended = seen
            .header("mcp-session-id")
            .and_then(|id| self.life.end_session(id));
        let status = match (self.inner.mode, ended) {
            (Mode::Streamable { session: true, .. }, Some(())) => 204,
            (Mode::Streamable { session: true, .. }, None) => 404,
            _ => 405,
        };
        self.say(CannedResponse::bare(status)).await
    }
}

/// The transport of the first revision: one stream, and an address to post to.
impl Connection {
    async fn open_sse(&mut self, fault: Option<&Fault>) -> Result<AfterResponse, ConnectionCut> {
        let session = self.life.open_session();
        let _open = self.inner.count_stream();
        let endpoint = self.inner.endpoint(&session.id);
        self.sender.begin_chunks("text/event-stream", &[]).await?;
        if let Some(Fault {
            deed: FaultAction::EndStream(_),
            ..
        }) = fault
        {
            self.sender.end_chunks().await?;
            return Ok(AfterResponse::Keep);
        }
        let event = format!("event: endpoint\ndata: {endpoint}\n\n");
        self.sender.chunk(event.as_bytes()).await?;
        let mut reader = session.unasked.read_behind(None);
        let outcome = self.send_events(&mut reader, false).await;
        self.life.end_session(&session.id);
        outcome
    }

    async fn post_message(
        &mut self,
        seen: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let id = seen.path.split_once("sessionId=").map(|(_, id)| id);
        let Some(session) = id.and_then(|id| self.life.session(id)) else {
            return self
                .refuse(404, &Value::Null, NO_SESSION, "no such session")
                .await;
        };
        let voice = ResponseStream {
            own: Arc::clone(&session.unasked),
            unasked: Some(Arc::clone(&session.unasked)),
            is_shared: true,
        };
        match Message::read(&seen.body) {
            Message::Request(request) => {
                let player = &self.life.player;
                let has_begun = player.answer(&session.id, request, Arc::new(voice));
                if fault.is_some() {
                    let _ = has_begun.await;
                }
            }
            Message::Notification { method, params } => {
                self.heed(&session, &Request::notification(&method, &params));
            }
            Message::Response(response) => self.life.player.deliver(response),
            Message::Invalid { .. } => {
                let reason = "not a message";
                return self
                    .refuse(400, &Value::Null, INVALID_REQUEST, reason)
                    .await;
            }
        }
        self.accept(fault).await
    }
}

/// Sending.
impl Connection {
    async fn reply(
        &mut self,
        mut reply: Reply,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let outcome = self.send_reply(&mut reply, fault).await;
        if let Some((scope, id)) = &reply.cancelled_by_disconnect {
            self.life.player.cancel(scope, id);
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
                deed: FaultAction::EndStream(retry),
                ..
            }) => {
                if !reply.has_ids {
                    self.wait_answer(&mut reply.reader).await?;
                }
                self.begin_events(reply).await?;
                if let Some(retry) = retry {
                    self.say_retry(*retry).await?;
                }
                self.sender.end_chunks().await?;
                return Ok(AfterResponse::Keep);
            }
            Some(fault) => {
                self.wait_answer(&mut reply.reader).await?;
                return self.misbehave(fault).await;
            }
            None => {}
        }
        // A modern refusal has a status of its own, so that the first word decides.
        let is_modern = reply.cancelled_by_disconnect.is_some();
        if reply.format == ResponseFormat::Sse && !is_modern {
            self.begin_events(reply).await?;
            return self.send_events(&mut reply.reader, reply.has_ids).await;
        }
        let Some((number, piece)) = self.next(&mut reply.reader).await? else {
            return Err(ConnectionCut);
        };
        match FirstChunk::of(&piece) {
            FirstChunk::Refusal(code) if is_modern && headers::status_of(code).is_some() => {
                let status = headers::status_of(code).unwrap_or(400);
                self.say_line(status, reply, &piece).await
            }
            FirstChunk::Refusal(_) | FirstChunk::Answer if reply.format == ResponseFormat::Json => {
                self.say_line(200, reply, &piece).await
            }
            FirstChunk::Junk if reply.format == ResponseFormat::Json => {
                let sender = &mut self.sender;
                sender
                    .begin_chunks("application/json", &reply.headers)
                    .await?;
                sender.chunk(as_bytes(&piece)).await?;
                while let Some((_, piece)) = self.next(&mut reply.reader).await? {
                    self.sender.chunk(as_bytes(&piece)).await?;
                }
                self.sender.end_chunks().await?;
                Ok(AfterResponse::Keep)
            }
            _ => {
                self.begin_events(reply).await?;
                self.send_event(&reply.reader, number, &piece, reply.has_ids)
                    .await?;
                self.send_events(&mut reply.reader, reply.has_ids).await
            }
        }
    }

    async fn say_line(
        &mut self,
        status: u16,
        reply: &Reply,
        piece: &Chunk,
    ) -> Result<AfterResponse, ConnectionCut> {
        let mut answer = CannedResponse::json(status, as_bytes(piece));
        answer.headers.extend(reply.headers.iter().cloned());
        self.say(answer).await
    }

    /// Opens a stream of events, with an empty one first so that the client can come back.
    async fn begin_events(&mut self, reply: &Reply) -> Result<(), ConnectionCut> {
        let headers = &reply.headers;
        self.sender
            .begin_chunks("text/event-stream", headers)
            .await?;
        if reply.has_ids && self.inner.primes_streams() {
            let first = format!("id: {}-0\ndata: \n\n", reply.reader.stream.number);
            self.sender.chunk(first.as_bytes()).await?;
        }
        match self.inner.retry().filter(|_| reply.has_ids) {
            Some(retry) => self.say_retry(retry).await,
            None => Ok(()),
        }
    }

    async fn say_retry(&mut self, retry: Duration) -> Result<(), ConnectionCut> {
        let line = format!("retry: {}\n\n", retry.as_millis());
        self.sender.chunk(line.as_bytes()).await
    }

    async fn send_events(
        &mut self,
        reader: &mut EventLogReader,
        has_ids: bool,
    ) -> Result<AfterResponse, ConnectionCut> {
        while let Some((number, piece)) = self.next(reader).await? {
            self.send_event(reader, number, &piece, has_ids).await?;
        }
        self.sender.end_chunks().await?;
        Ok(AfterResponse::Keep)
    }

    async fn send_event(
        &mut self,
        reader: &EventLogReader,
        number: u64,
        piece: &Chunk,
        has_ids: bool,
    ) -> Result<(), ConnectionCut> {
        let id = has_ids.then(|| format!("{}-{number}", reader.stream.number));
        self.sender.chunk(&as_event(piece, id.as_deref())).await
    }

    /// What is said next; nothing more is sent when the client has gone.
    async fn next(
        &mut self,
        reader: &mut EventLogReader,
    ) -> Result<Option<(u64, Chunk)>, ConnectionCut> {
        tokio::select! {
            biased;
            piece = reader.next() => Ok(piece),
            () = self.receiver.closed() => Err(ConnectionCut),
        }
    }

    /// Waits until the request was carried out, as far as its answer.
    async fn wait_answer(&mut self, reader: &mut EventLogReader) -> Result<(), ConnectionCut> {
        while let Some((_, piece)) = self.next(reader).await? {
            if matches!(
                FirstChunk::of(&piece),
                FirstChunk::Answer | FirstChunk::Refusal(_)
            ) {
                break;
            }
        }
        Ok(())
    }
}

/// What the first word of a reply is.
enum FirstChunk {
    Answer,
    Refusal(i64),
    /// A notification, or a request of the server.
    Aside,
    Junk,
}

impl FirstChunk {
    fn of(piece: &Chunk) -> Self {
        let Chunk::Line(line) = piece else {
            return Self::Junk;
        };
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return Self::Junk;
        };
        let code = message.get("error").and_then(|error| error.get("code"));
        if let Some(code) = code.and_then(Value::as_i64) {
            Self::Refusal(code)
        } else if message.get("method").is_some() {
            Self::Aside
        } else {
            Self::Answer
        }
    }
}

fn as_bytes(piece: &Chunk) -> &[u8] {
    match piece {
        Chunk::Line(line) => line.as_bytes(),
        Chunk::Bytes(bytes) => bytes,
    }
}
