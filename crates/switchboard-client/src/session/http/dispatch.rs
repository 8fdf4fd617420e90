//! Dispatches a JSON-RPC message that arrived over HTTP.
//!
//! Notifications and requests of the server take effect here. Responses go back to the transport, which
//! knows how to match them with requests.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::session::peer::{self, Outgoing};
use crate::session::request_table::Reply;
use switchboard_wire::jsonrpc as wire;
use switchboard_wire::jsonrpc::{Message, Outcome, ParsedLine, RawResult, ResponseId};
use switchboard_wire::mcp::{Progress, ProtocolVersion};
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::scan::range_of;

/// What an incoming message was.
pub(super) enum Dispatched {
    /// A response. The transport delivers it.
    Response { id: ResponseId, reply: Reply },
    /// The messages of a batch. The transport dispatches each.
    Batch(Vec<Bytes>),
    /// Progress that a caller asked for. Not charged to the rate limit.
    RequestedProgress,
    /// Any other message. It was handled or discarded.
    Unsolicited,
}

/// Dispatches one message. A response takes the memory permit along. `progress` delivers progress to the
/// request with this id, and says whether its caller asked for it.
pub(super) fn dispatch<S: Outgoing>(
    session: &Arc<S>,
    mut message: Bytes,
    permit: &mut Option<MemoryPermit>,
    progress: impl FnOnce(u64, Progress) -> bool,
) -> Dispatched {
    let peer = session.peer();
    let context = &peer.context;
    let (id, result, index) = match wire::parse_line(&message, context.limits.json_budget()) {
        ParsedLine::Message(Message::Response {
            id,
            outcome: Outcome::Result(result, index),
        }) => (id, range_of(&message, result), index),
        ParsedLine::Message(Message::Response {
            id,
            outcome: Outcome::Error(mut error),
        }) => {
            context.redactor.redact_error(&mut error);
            let reply = Reply::Error(error);
            return Dispatched::Response { id, reply };
        }
        ParsedLine::Message(Message::Notification { method, params }) => {
            let params = params.unwrap_or_default();
            return if peer.on_notification(&method, params, progress) {
                Dispatched::RequestedProgress
            } else {
                Dispatched::Unsolicited
            };
        }
        ParsedLine::Message(Message::Request { id, method, params }) => {
            peer::on_request(session, id, &method, params.unwrap_or(b"{}"));
            return Dispatched::Unsolicited;
        }
        ParsedLine::Batch(messages) if peer.version() == Some(ProtocolVersion::V2025_03_26) => {
            let messages = messages.into_iter().map(|part| message.slice_ref(part));
            return Dispatched::Batch(messages.collect());
        }
        ParsedLine::Invalid {
            id: Some(id),
            problem,
        } => {
            let (id, reply) = (ResponseId::Number(id), Reply::Invalid(problem));
            return Dispatched::Response { id, reply };
        }
        ParsedLine::Batch(_) | ParsedLine::Noise | ParsedLine::Invalid { id: None, .. } => {
            let text = peer.excerpt(&message);
            tracing::debug!(server = %context.server, text, "message discarded");
            return Dispatched::Unsolicited;
        }
    };
    message.truncate(result.end);
    message.advance(result.start);
    Dispatched::Response {
        id,
        reply: Reply::Result(RawResult::new(message, index, permit.take())),
    }
}
