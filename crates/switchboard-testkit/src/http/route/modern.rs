//! Responds to requests of the modern era, which are independent of each other.

use std::sync::Arc;

use super::reply::Reply;
use crate::http::connection::{AfterResponse, Connection};
use crate::http::event_log::{EventLog, ResponseStream};
use crate::http::fault::{CannedResponse, Fault};
use crate::http::request::ReceivedRequest;
use crate::http::response::ConnectionCut;
use crate::http::{Mode, ResponseFormat, headers};
use crate::scripted::Request;

const HEADER_MISMATCH: i64 = -32020;

impl Connection {
    pub(super) async fn post_modern(
        &mut self,
        received: &ReceivedRequest,
        request: Request,
        fault: Option<&Fault>,
    ) -> Result<AfterResponse, ConnectionCut> {
        if let Some(mismatch) = headers::find_mismatch(received, &request) {
            return self
                .respond_error(400, &request.id, HEADER_MISMATCH, &mismatch)
                .await;
        }
        let Mode::Streamable { format, .. } = self.state.mode else {
            return self.respond(CannedResponse::empty(405)).await;
        };
        let scope = self.run.unique_name("request");
        let id = request.id.clone();
        let is_listening = request.method == "subscriptions/listen";
        let stream = EventLog::new(0, false);
        let reply = Reply {
            reader: stream.read_after(None),
            headers: Vec::new(),
            format: if is_listening {
                ResponseFormat::Sse
            } else {
                format
            },
            is_resumable: false,
            cancelled_by_disconnect: Some((scope.clone(), id)),
        };
        let output = ResponseStream {
            own: stream,
            notifications: None,
            is_shared: false,
        };
        let _open = is_listening.then(|| self.state.count_stream());
        self.run
            .driver
            .start_request(&scope, request, Arc::new(output));
        self.reply(reply, fault).await
    }
}
