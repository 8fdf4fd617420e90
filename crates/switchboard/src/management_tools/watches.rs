//! `SubscribeMcpResource` and `SubscribePolling` start watches. `UnsubscribeMcpResource` and
//! `UnsubscribePolling` stop them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use switchboard_server::{ToolError, ToolResult};

use super::json_output;
use crate::call::CallContext;
use crate::content::Output;
use crate::host::Host;
use crate::id::WatchId;
use crate::watch::{Watch, WatchKind, WatchRequest};

#[derive(Deserialize)]
pub(super) struct SubscribeInput {
    server: String,
    uri: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PollInput {
    r#type: PollTarget,
    server: String,
    tool_name: Option<String>,
    arguments: Option<Map<String, Value>>,
    uri: Option<String>,
    interval_ms: Option<f64>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum PollTarget {
    Tool,
    Resource,
}

/// Selects the watches to stop: those that match every field that is not `None`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UnsubscribeInput {
    server: Option<String>,
    /// The URI of a resource or, for a poll, the name of a tool.
    #[serde(alias = "target")]
    uri: Option<String>,
    subscription_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubscribeResult {
    subscribed: bool,
    subscription_id: WatchId,
}

#[derive(Serialize)]
struct UnsubscribeResult {
    unsubscribed: bool,
}

pub(super) async fn subscribe(
    host: &Host,
    input: SubscribeInput,
    context: &CallContext,
) -> ToolResult<Output> {
    let request = WatchRequest::subscription(input.server, input.uri);
    start(host, request, input.reason, context).await
}

pub(super) async fn poll(
    host: &Host,
    input: PollInput,
    context: &CallContext,
) -> ToolResult<Output> {
    let missing = |field: &str| ToolError::new(format!("`{field}` is missing"));
    let request = match input.r#type {
        PollTarget::Resource => {
            let uri = input.uri.ok_or_else(|| missing("uri"))?;
            WatchRequest::poll_resource(input.server, uri)
        }
        PollTarget::Tool => {
            let tool = input.tool_name.ok_or_else(|| missing("toolName"))?;
            let arguments = input.arguments.unwrap_or_default();
            WatchRequest::poll_tool(input.server, tool.as_str(), arguments)
        }
    };
    let request = match input.interval_ms {
        None => request,
        Some(millis) => {
            let interval = Duration::try_from_secs_f64(millis / 1000.0);
            request.every(interval.unwrap_or(Duration::MAX))
        }
    };
    start(host, request, input.reason, context).await
}

async fn start(
    host: &Host,
    mut request: WatchRequest,
    reason: Option<String>,
    context: &CallContext,
) -> ToolResult<Output> {
    request.reason = reason;
    // The watch outlives the tool call that starts it, so the deadline of that call does not apply
    // to the watch.
    request.context = CallContext {
        deadline: None,
        ..context.clone()
    };
    let watch = host.watch(request).await?;
    json_output(&SubscribeResult {
        subscribed: true,
        subscription_id: watch.id,
    })
}

/// Stops the watches of this kind that `input` selects. Only watches that the principal of this
/// call started are stopped.
pub(super) fn unsubscribe(
    host: &Host,
    kind: WatchKind,
    input: &UnsubscribeInput,
    context: &CallContext,
) -> ToolResult<Output> {
    let UnsubscribeInput {
        server,
        uri,
        subscription_id: id,
    } = input;
    if server.is_none() && uri.is_none() && id.is_none() {
        let text = "specify `subscriptionId`, or `server` and the watched resource or tool";
        return Err(ToolError::new(text));
    }
    let matches = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|it| it == has);
    let is_selected = |watch: &Watch| {
        watch.kind == kind
            && watch.principal == context.principal
            && matches(server, watch.server.as_str())
            && matches(uri, watch.target.name())
            && matches(id, watch.id.as_str())
    };
    let watches = host.watches().into_iter();
    let stopped = watches
        .filter(is_selected)
        .filter_map(|watch| host.unwatch(watch.id.as_str()))
        .count();
    json_output(&UnsubscribeResult {
        unsubscribed: stopped > 0,
    })
}
