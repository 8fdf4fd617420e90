//! Handles the requests and log messages that a server sends to the host.
//!
//! Forwards elicitation, sampling and roots requests to the [`Interaction`], and turns log messages
//! into events. The client crate rejects requests beyond the limits per minute before they reach
//! this handler.

use std::sync::Arc;

use serde_json::Value;
use switchboard_client::client_handler::{ClientHandler, LogMessage};
use switchboard_client::elicitation::{ElicitResponse, Elicitation};
use switchboard_client::roots::Root;
use switchboard_client::sampling::SamplingRequest;
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::ClientCapabilities;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::text::for_terminal;

use crate::event::{Event, EventSink};
use crate::id::ServerName;
use crate::interaction::Interaction;

/// The [`ClientHandler`] of one server. Adds the name of the server to requests and events.
pub(super) struct HostClientHandler {
    pub(super) server: ServerName,
    pub(super) interaction: Arc<dyn Interaction>,
    pub(super) events: EventSink,
}

impl ClientHandler for HostClientHandler {
    fn capabilities(&self) -> ClientCapabilities {
        self.interaction.capabilities_for(&self.server)
    }

    fn elicit<'a>(&'a self, request: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        self.interaction.elicit(request)
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        self.interaction.sample(request)
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        self.interaction.roots(&self.server)
    }

    fn wants_logs(&self) -> bool {
        self.events.has_listeners()
    }

    fn on_log(&self, message: LogMessage) {
        self.events.send(|| Event::ServerLogged {
            server: self.server.clone(),
            level: for_terminal(&message.level).into_owned(),
            logger: (message.logger.as_ref()).map(|name| for_terminal(name).into_owned()),
            data: message.data.as_ref().map(Json::sanitized),
        });
    }

    fn on_logs_dropped(&self, count: u64) {
        self.events.send(|| Event::LogSkipped {
            server: self.server.clone(),
            count,
        });
    }

    fn on_requests_limited(&self, method: &'static str, per_minute: usize) {
        self.events.send(|| Event::RequestsLimited {
            server: self.server.clone(),
            method: method.to_owned(),
            per_minute,
        });
    }
}
