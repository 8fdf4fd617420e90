//! `RefreshMcpTools` and `WaitForMcpServers`.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use switchboard_server::{ToolError, ToolResult};

use super::{OptionalServer, check_server_not_denied, check_server_selected, json_output};
use crate::call::CallContext;
use crate::content::Output;
use crate::host::Host;
use crate::id::{ServerName, WireName};
use crate::query::RefreshOutcome;
use crate::server::ServerHandle;
use crate::status::ConnectionStatus;

/// The timeout of `WaitForMcpServers` if the model sets none.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// The longest timeout of `WaitForMcpServers`.
const MAX_WAIT: Duration = Duration::from_secs(10 * 60);

/// One server in the result of `RefreshMcpTools`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefreshedServer {
    server: String,
    status: RefreshStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<Vec<WireName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Vec<WireName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum RefreshStatus {
    Refreshed,
    NotConnected,
    Error,
}

pub(super) async fn refresh(
    host: &Host,
    input: OptionalServer,
    context: &CallContext,
) -> ToolResult<Output> {
    let servers = match &input.server {
        Some(server) => {
            check_server_selected(server, context)?;
            check_server_not_denied(host, server)?;
            vec![find_server(host, server)?]
        }
        None => {
            let all = host.status().into_iter().map(|status| status.name);
            all.filter(|name| is_usable(host, name, context)).collect()
        }
    };
    let refreshed = servers
        .iter()
        .map(|server| refresh_server(host, server, context));
    let refreshed = join_all(refreshed).await;
    json_output(&refreshed)
}

async fn refresh_server(
    host: &Host,
    server: &ServerName,
    context: &CallContext,
) -> RefreshedServer {
    let mut refreshed = RefreshedServer {
        server: server.to_string(),
        status: RefreshStatus::NotConnected,
        tool_count: None,
        added: None,
        removed: None,
        error: None,
    };
    let handle = match host.state().query_server_for(server.as_str(), context) {
        Ok(handle) => handle,
        Err(error) => {
            refreshed.status = RefreshStatus::Error;
            refreshed.error = Some(error.to_string());
            return refreshed;
        }
    };
    let before = tool_names(&handle);
    match host.refresh_tools_of(&handle).await {
        Ok(RefreshOutcome::Refreshed) => {
            let after = tool_names(&handle);
            refreshed.status = RefreshStatus::Refreshed;
            refreshed.tool_count = Some(after.len());
            refreshed.added = Some(after.difference(&before).cloned().collect());
            refreshed.removed = Some(before.difference(&after).cloned().collect());
        }
        Ok(RefreshOutcome::NotConnected) => {}
        Err(error) => {
            refreshed.status = RefreshStatus::Error;
            refreshed.error = Some(error.to_string());
        }
    }
    refreshed
}

fn tool_names(server: &ServerHandle) -> BTreeSet<WireName> {
    let catalog = server.catalog();
    let tools = catalog.tools_of(&server.settings().name);
    tools.map(|tool| tool.wire_name.clone()).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitInput {
    servers: Option<Vec<String>>,
    timeout_ms: Option<f64>,
}

/// One server in the result of `WaitForMcpServers`.
#[derive(Serialize)]
struct WaitedServer {
    server: String,
    status: ConnectionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn wait(
    host: &Host,
    input: WaitInput,
    context: &CallContext,
) -> ToolResult<Output> {
    let names = input.servers.unwrap_or_default();
    let mut servers = Vec::with_capacity(names.len());
    for name in &names {
        check_server_selected(name, context)?;
        check_server_not_denied(host, name)?;
        servers.push(find_server(host, name)?);
    }
    let limit = input.timeout_ms.map_or(DEFAULT_WAIT, |millis| {
        let max = MAX_WAIT.as_secs_f64();
        Duration::from_secs_f64((millis / 1000.0).clamp(0.0, max))
    });
    if servers.is_empty() {
        let all = host.status().into_iter().map(|status| status.name);
        servers.extend(all.filter(|name| is_usable(host, name, context)));
    }
    let find = |name: &ServerName| host.state().query_server_for(name.as_str(), context);
    let handles: Vec<_> = servers.iter().filter_map(|name| find(name).ok()).collect();
    let discovered = join_all(handles.iter().map(|server| server.discover()));
    // A timeout is not an error: the result then shows which servers are still starting.
    let _ = tokio::time::timeout(limit, discovered).await;
    let statuses = handles
        .iter()
        .map(|server| server.status(&server.catalog()));
    let waited = statuses.map(|status| WaitedServer {
        server: status.name.to_string(),
        status: status.status,
        error: status.error,
    });
    json_output(&waited.collect::<Vec<_>>())
}

/// Whether the request may use the server and no rule denies it.
fn is_usable(host: &Host, server: &ServerName, context: &CallContext) -> bool {
    context.servers.contains(server) && check_server_not_denied(host, server.as_str()).is_ok()
}

fn find_server(host: &Host, server: &str) -> ToolResult<ServerName> {
    let status = host.server_status(server);
    status.map(|status| status.name).map_err(ToolError::from)
}
