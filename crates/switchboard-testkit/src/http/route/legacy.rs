//! Responds to requests of the legacy era: sessions, resumable streams and the transport of
//! revision 2024-11-05.

use std::sync::Arc;

use serde_json::Value;

use super::reply::Reply;
use crate::http::connection::{AfterResponse, Connection};
use crate::http::event_log::ResponseStream;
use crate::http::fault::{CannedResponse, Fault, FaultAction};
use crate::http::request::ReceivedRequest;
use crate::http::response::ConnectionCut;
use crate::http::session::Session;
use crate::http::{Mode, ResponseFormat, headers};
use crate::scripted::{Message, Request};

const INVALID_REQUEST: i64 = -32600;
const NO_SESSION: i64 = -32000;

/// The Streamable HTTP transport of the legacy era.
impl Connection {
    /// The session to which a request belongs; `None` if its session id is missing or unknown.
    pub(super) fn session_of(&self, received: &ReceivedRequest) -> Option<Arc<Session>> {
        match self.state.mode {
            Mode::Streamable { session: true, .. } => {
                self.run.session(received.header("mcp-session-id")?)
            }
            _ => Some(self.run.common_session()),
        }
    }

    pub(super) async fn reject_session(
        &mut self,
        received: &ReceivedRequest,
        id: &Value,
    ) -> Result<AfterResponse, ConnectionCut> {
        if received.header("mcp-session-id").is_some() {
            self.respond_error(404, id, NO_SESSION, "no such session")
                .await
        } else {
            let reason = "a session id is required";
            self.respond_error(400, id, NO_SESSION, reason).await
        }
    }

    pub(super) async fn post_legacy(
        &mut self,
        received: &ReceivedRequest,
        request: Request,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let Mode::Streamable {
            format,
            session,
            get_stream,
        } = self.state.mode
        else {
            return self.respond(CannedResponse::empty(405)).await;
        };
        let mut headers = Vec::new();
        let session = if request.method == "initialize" && session {
            let session = self.run.open_session();
            headers.push(("Mcp-Session-Id".to_owned(), session.id.clone()));
            session
        } else if let Some(session) = self.session_of(received) {
            if let Some(rejection) = headers::reject_version(received, &request) {
                return self.respond(rejection).await;
            }
            session
        } else if self.state.handles_probe(&request) {
            self.run.common_session()
        } else {
            return self.reject_session(received, &request.id).await;
        };
        let stream = session.open_stream();
        let reply = Reply {
            reader: stream.read_after(None),
            headers,
            format,
            is_resumable: true,
            cancelled_by_disconnect: None,
        };
        let output = ResponseStream {
            own: stream,
            notifications: get_stream.then(|| Arc::clone(&session.notifications)),
            is_shared: false,
        };
        let driver = &self.run.driver;
        driver.start_request(&session.id, request, Arc::new(output));
        self.reply(reply, fault).await
    }

    pub(super) async fn listen(
        &mut self,
        received: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let Mode::Streamable { get_stream, .. } = self.state.mode else {
            return self.respond(CannedResponse::empty(405)).await;
        };
        let resumed = received.header("last-event-id");
        if self.state.is_modern_only() || (!get_stream && resumed.is_none()) {
            return self
                .respond(CannedResponse::empty(405).with("Allow", "POST"))
                .await;
        }
        if !headers::accepts(received, "text/event-stream") {
            return self.respond(CannedResponse::empty(406)).await;
        }
        let Some(session) = self.session_of(received) else {
            return self.reject_session(received, &Value::Null).await;
        };
        let reader = resumed
            .and_then(|event| session.resume(event))
            .unwrap_or_else(|| session.notifications.read_after(None));
        let reply = Reply {
            reader,
            headers: Vec::new(),
            format: ResponseFormat::Sse,
            is_resumable: true,
            cancelled_by_disconnect: None,
        };
        let _open = self.state.count_stream();
        self.reply(reply, fault).await
    }

    pub(super) async fn delete(
        &mut self,
        received: &ReceivedRequest,
    ) -> Result<AfterResponse, ConnectionCut> {
        let ended = received
            .header("mcp-session-id")
            .and_then(|id| self.run.end_session(id));
        let status = match (self.state.mode, ended) {
            (Mode::Streamable { session: true, .. }, Some(())) => 204,
            (Mode::Streamable { session: true, .. }, None) => 404,
            _ => 405,
        };
        self.respond(CannedResponse::empty(status)).await
    }
}

/// The transport of revision 2024-11-05: one event stream for responses, and an endpoint for POST.
impl Connection {
    pub(super) async fn open_sse(
        &mut self,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let session = self.run.open_session();
        let _open = self.state.count_stream();
        let endpoint = self.state.endpoint(&session.id);
        self.sender.begin_chunks("text/event-stream", &[]).await?;
        if let Some(Fault {
            action: FaultAction::EndStream(_),
            ..
        }) = fault
        {
            self.sender.end_chunks().await?;
            return Ok(AfterResponse::Keep);
        }
        let event = format!("event: endpoint\ndata: {endpoint}\n\n");
        self.sender.chunk(event.as_bytes()).await?;
        let mut reader = session.notifications.read_after(None);
        let outcome = self.send_events(&mut reader, false).await;
        self.run.end_session(&session.id);
        outcome
    }

    pub(super) async fn post_message(
        &mut self,
        received: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        let id = received.path.split_once("sessionId=").map(|(_, id)| id);
        let Some(session) = id.and_then(|id| self.run.session(id)) else {
            return self
                .respond_error(404, &Value::Null, NO_SESSION, "no such session")
                .await;
        };
        let output = ResponseStream {
            own: Arc::clone(&session.notifications),
            notifications: Some(Arc::clone(&session.notifications)),
            is_shared: true,
        };
        match Message::read(&received.body) {
            Message::Request(request) => {
                let driver = &self.run.driver;
                let has_begun = driver.start_request(&session.id, request, Arc::new(output));
                if fault.is_some() {
                    let _ = has_begun.await;
                }
            }
            Message::Notification { method, params } => {
                self.handle_notification(&session, &Request::notification(&method, &params));
            }
            Message::Response(response) => self.run.driver.deliver(response),
            Message::Invalid { .. } => {
                let reason = "not a message";
                return self
                    .respond_error(400, &Value::Null, INVALID_REQUEST, reason)
                    .await;
            }
        }
        self.accept(fault).await
    }
}
