//! Routes requests of the CLI to in-process servers, permissions, hooks and elicitations.
//!
//! Invariant: every request gets an answer. If its subtype is unknown, or if the component that
//! answers it panics, the answer is an error.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard::interaction::BoxFuture;
use switchboard::mcp::Json;

use crate::elicitation::ElicitationQueues;
use crate::hooks::Hooks;
use crate::lenient_json;
use crate::permission::Permissions;
use crate::servers::InProcessServers;

/// The components that answer requests of the CLI.
pub(crate) struct RequestRouter {
    pub(crate) servers: InProcessServers,
    pub(crate) permissions: Permissions,
    pub(crate) hooks: Hooks,
    pub(crate) elicitations: ElicitationQueues,
}

/// The members of a request that decide which component answers it.
#[derive(Debug, Deserialize)]
struct RequestHead<'a> {
    #[serde(default)]
    subtype: String,
    #[serde(default)]
    server_name: String,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

pub(super) enum RoutedRequest {
    /// An MCP message that was already passed to its in-process server. The future returns the
    /// response.
    ServerMessage(BoxFuture<'static, Json>),
    /// Any other request, as JSON text.
    Other { subtype: String, request: String },
    /// A request that cannot be parsed. Holds the error message to send to the CLI.
    Invalid(String),
}

impl RequestRouter {
    /// Decides which component answers a request. Passes an MCP message to its server before it
    /// returns, so that each server receives its messages in the order in which the CLI sent them.
    pub(super) fn route(&self, request: &str) -> RoutedRequest {
        let head: RequestHead<'_> = match serde_json::from_str(request) {
            Ok(head) => head,
            Err(error) => return RoutedRequest::Invalid(parse_error(&error)),
        };
        match (head.subtype.as_str(), head.message) {
            ("mcp_message", Some(message)) => {
                let response = self.servers.message(&head.server_name, message);
                RoutedRequest::ServerMessage(Box::pin(response))
            }
            ("mcp_message", None) => {
                RoutedRequest::Invalid("mcp_message has no `message`".to_owned())
            }
            _ => RoutedRequest::Other {
                subtype: head.subtype,
                request: request.to_owned(),
            },
        }
    }

    /// Waits for the answer to a request. Returns the payload of the response as JSON text, or the
    /// error message to send to the CLI.
    pub(super) async fn answer(&self, routed: RoutedRequest) -> Result<String, String> {
        let answer = AssertUnwindSafe(self.dispatch(routed)).catch_unwind();
        answer
            .await
            .unwrap_or_else(|_| Err("the handler of this request panicked".to_owned()))
    }

    async fn dispatch(&self, routed: RoutedRequest) -> Result<String, String> {
        let (subtype, request) = match routed {
            RoutedRequest::ServerMessage(response) => {
                let response = response.await;
                return Ok(format!(r#"{{"mcp_response":{}}}"#, response.as_str()));
            }
            RoutedRequest::Invalid(error) => return Err(error),
            RoutedRequest::Other { subtype, request } => (subtype, request),
        };
        let answer = match subtype.as_str() {
            // Do not use `parse_lossy` here. It may replace parts of the tool input by null, and
            // the response returns that input to the CLI.
            "can_use_tool" => {
                let request = lenient_json::parse(&request).map_err(|error| parse_error(&error))?;
                self.permissions.can_use_tool(request).await
            }
            "hook_callback" => self.hooks.callback(parse_lossy(&request)?).await,
            "elicitation" => self.elicitations.elicit(parse_lossy(&request)?).await,
            _ => Err(format!("Unsupported control request subtype: {subtype}")),
        };
        answer.map(|answer| answer.to_string())
    }
}

fn parse_lossy(request: &str) -> Result<Value, String> {
    lenient_json::parse_lossy(request).map_err(|error| parse_error(&error))
}

fn parse_error(error: &serde_json::Error) -> String {
    format!("invalid control request: {error}")
}
