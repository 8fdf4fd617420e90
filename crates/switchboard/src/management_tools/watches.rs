//! Learning of changes without asking again and again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer;
use crate::call::CallContext;
use crate::host::Host;
use crate::id::WatchId;
use crate::registry::{ToolAnswer, ToolFailure};
use crate::watch::{Watch, WatchKind, WatchRequest};

#[derive(Deserialize)]
pub(super) struct Subscribe {
    server: String,
    uri: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Poll {
    r#type: Polled,
    server: String,
    tool_name: Option<String>,
    arguments: Option<Map<String, Value>>,
    uri: Option<String>,
    interval_ms: Option<f64>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Polled {
    Tool,
    Resource,
}

/// Which watches are to end: those that fit everything that is said.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unsubscribe {
    server: Option<String>,
    /// The address of a resource or, of a poll, the name of a tool.
    #[serde(alias = "target")]
    uri: Option<String>,
    subscription_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Subscribed {
    subscribed: bool,
    subscription_id: WatchId,
}

#[derive(Serialize)]
struct Unsubscribed {
    unsubscribed: bool,
}

pub(super) async fn subscribe(
    host: &Host,
    wanted: Subscribe,
    context: &CallContext,
) -> Result<ToolAnswer, ToolFailure> {
    let request = WatchRequest::subscription(wanted.server, wanted.uri);
    begin(host, request, wanted.reason, context).await
}

pub(super) async fn poll(
    host: &Host,
    wanted: Poll,
    context: &CallContext,
) -> Result<ToolAnswer, ToolFailure> {
    let missing = |what: &str| ToolFailure(format!("`{what}` is missing"));
    let request = match wanted.r#type {
        Polled::Resource => {
            let uri = wanted.uri.ok_or_else(|| missing("uri"))?;
            WatchRequest::poll_resource(wanted.server, uri)
        }
        Polled::Tool => {
            let tool = wanted.tool_name.ok_or_else(|| missing("toolName"))?;
            let arguments = wanted.arguments.unwrap_or_default();
            WatchRequest::poll_tool(wanted.server, tool.as_str(), arguments)
        }
    };
    let request = match wanted.interval_ms {
        None => request,
        Some(millis) => {
            let interval = Duration::try_from_secs_f64(millis / 1000.0);
            request.every(interval.unwrap_or(Duration::MAX))
        }
    };
    begin(host, request, wanted.reason, context).await
}

async fn begin(
    host: &Host,
    mut request: WatchRequest,
    reason: Option<String>,
    context: &CallContext,
) -> Result<ToolAnswer, ToolFailure> {
    request.reason = reason;
    // It outlives the call that asked for it.
    request.context = CallContext {
        deadline: None,
        ..context.clone()
    };
    let watch = host.watch(request).await;
    let watch = watch.map_err(|error| ToolFailure::of(&error))?;
    answer(&Subscribed {
        subscribed: true,
        subscription_id: watch.id,
    })
}

/// Ends the watches of a kind that are meant.
pub(super) fn end(
    host: &Host,
    kind: WatchKind,
    meant: &Unsubscribe,
    context: &CallContext,
) -> Result<ToolAnswer, ToolFailure> {
    let Unsubscribe {
        server,
        uri,
        subscription_id: id,
    } = meant;
    if server.is_none() && uri.is_none() && id.is_none() {
        let text = "say which: by its `subscriptionId`, or by `server` and what is watched of it";
        return Err(ToolFailure(text.to_owned()));
    }
    let fits = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|it| it == has);
    let is_meant = |watch: &Watch| {
        watch.kind == kind
            && watch.principal == context.principal
            && fits(server, watch.server.as_str())
            && fits(uri, watch.target.name())
            && fits(id, watch.id.as_str())
    };
    let watches = host.watches().into_iter();
    let ended = watches
        .filter(is_meant)
        .filter_map(|watch| host.unwatch(watch.id.as_str()))
        .count();
    answer(&Unsubscribed {
        unsubscribed: ended > 0,
    })
}
