//! Chooses how to respond to a request, by transport and era.
//!
//! [`modern`] and [`legacy`] contain the rules of the eras; [`reply`] sends the responses.

mod legacy;
mod modern;
mod reply;

use std::sync::Arc;

use serde_json::Value;

use super::Mode;
use super::connection::{AfterResponse, Connection};
use super::event_log::ResponseStream;
use super::fault::{CannedResponse, Fault};
use super::headers;
use super::request::ReceivedRequest;
use super::response::ConnectionCut;
use super::session::Session;
use crate::scripted::{Message, Request};

impl Connection {
    /// Executes a request and responds to it. A `fault` takes the place of the response.
    pub(super) async fn route(
        &mut self,
        received: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        if let Some(challenge) = self.state.challenge_to(received) {
            let rejection = CannedResponse::empty(401).with("WWW-Authenticate", &challenge);
            return self.respond(rejection).await;
        }
        let path = received.path.split('?').next().unwrap_or_default();
        match (self.state.mode, received.method.as_str(), path) {
            (Mode::Streamable { .. }, "POST", "/mcp") => self.post(received, fault).await,
            (Mode::Streamable { .. }, "GET", "/mcp") => self.listen(received, fault).await,
            (Mode::Streamable { .. }, "DELETE", "/mcp") => self.delete(received).await,
            (Mode::LegacySse, "GET", "/sse") => self.open_sse(fault).await,
            (Mode::LegacySse, "POST", "/message") => self.post_message(received, fault).await,
            (_, _, "/mcp" | "/sse" | "/message") => self.respond(CannedResponse::empty(405)).await,
            _ => self.respond(CannedResponse::empty(404)).await,
        }
    }

    async fn post(
        &mut self,
        received: &ReceivedRequest,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        if let Some(rejection) = headers::reject_post(received) {
            return self.respond(rejection).await;
        }
        match Message::read(&received.body) {
            Message::Invalid { code, reason } => {
                self.respond_error(400, &Value::Null, code, reason).await
            }
            Message::Request(request) if self.run.driver.is_modern(&request) => {
                self.post_modern(received, request, fault).await
            }
            Message::Request(request) => self.post_legacy(received, request, fault).await,
            Message::Notification { method, params } => {
                let Some(session) = self.session_of(received) else {
                    return self.reject_session(received, &Value::Null).await;
                };
                let notification = Request::notification(&method, &params);
                self.handle_notification(&session, &notification);
                self.accept(fault).await
            }
            Message::Response(response) => {
                if self.session_of(received).is_none() {
                    return self.reject_session(received, &Value::Null).await;
                }
                self.run.driver.deliver(response);
                self.accept(fault).await
            }
        }
    }

    /// Responds with 202 to a notification or to a response of the client, or runs the fault.
    async fn accept(&mut self, fault: Option<&Fault>) -> Result<AfterResponse, ConnectionCut> {
        match fault {
            Some(fault) => self.run_fault(fault).await,
            None => self.respond(CannedResponse::empty(202)).await,
        }
    }

    fn handle_notification(&self, session: &Session, notification: &Request) {
        let output = ResponseStream {
            own: Arc::clone(&session.notifications),
            notifications: Some(Arc::clone(&session.notifications)),
            is_shared: true,
        };
        let driver = &self.run.driver;
        driver.handle_notification(&session.id, notification, Arc::new(output));
    }
}
