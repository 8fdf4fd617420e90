//! Handles a JSON-RPC message that arrived over HTTP.
//!
//! This module handles notifications and requests of the server. It returns a response to the
//! transport, which finds the request that the response answers.

use std::sync::Arc;

use bytes::Bytes;

use crate::session::peer::{self, JsonRpcSession};
use crate::session::request_table::Reply;
use switchboard_wire::jsonrpc as wire;
use switchboard_wire::jsonrpc::{Message, Outcome, ParsedLine, ResponseId};
use switchboard_wire::mcp::{Progress, ProtocolVersion};
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::scan::range_of;

/// What a handled message was, and what the transport still has to do with it.
pub(super) enum IncomingKind {
    /// A response. The transport must deliver it to its caller.
    Response { id: ResponseId, reply: Reply },
    /// The messages of a batch. The transport must handle each of them.
    Batch(Vec<Bytes>),
    /// Progress that a caller asked for. Not charged to the rate limit.
    RequestedProgress,
    /// A message that needs no further handling, because it was handled or discarded. Charged to
    /// the rate limit.
    Unsolicited,
}

/// Handles one message. A successful response takes the memory permit. `progress` forwards
/// progress to the caller of the request with the given id, and returns whether this caller asked
/// for progress.
pub(super) fn handle_incoming<S: JsonRpcSession>(
    session: &Arc<S>,
    message: Bytes,
    permit: &mut Option<MemoryPermit>,
    progress: impl FnOnce(u64, Progress) -> bool,
) -> IncomingKind {
    let peer = session.peer();
    let context = &peer.context;
    match wire::parse_line(&message, context.limits.json_budget()) {
        ParsedLine::Message(Message::Response {
            id,
            outcome: Outcome::Result(result, index),
        }) => {
            let result = range_of(&message, result);
            let reply = Reply::from_result(message, result, index, permit.take());
            IncomingKind::Response { id, reply }
        }
        ParsedLine::Message(Message::Response {
            id,
            outcome: Outcome::Error(mut error),
        }) => {
            context.redactor.redact_error(&mut error);
            let reply = Reply::Error(error);
            IncomingKind::Response { id, reply }
        }
        ParsedLine::Invalid {
            id: Some(id),
            problem,
        } => {
            let (id, reply) = (ResponseId::Number(id), Reply::Invalid(problem));
            IncomingKind::Response { id, reply }
        }
        ParsedLine::Message(Message::Notification { method, params }) => {
            if peer.on_notification(&method, params.unwrap_or_default(), progress) {
                IncomingKind::RequestedProgress
            } else {
                IncomingKind::Unsolicited
            }
        }
        ParsedLine::Message(Message::Request { id, method, params }) => {
            peer::on_request(session, id, &method, params.unwrap_or(b"{}"));
            IncomingKind::Unsolicited
        }
        ParsedLine::Batch(messages) if peer.version() == Some(ProtocolVersion::V2025_03_26) => {
            let messages = messages.into_iter().map(|part| message.slice_ref(part));
            IncomingKind::Batch(messages.collect())
        }
        ParsedLine::Batch(_) | ParsedLine::Noise | ParsedLine::Invalid { id: None, .. } => {
            let text = peer.excerpt(&message);
            tracing::debug!(server = %context.server, text, "message discarded");
            IncomingKind::Unsolicited
        }
    }
}
