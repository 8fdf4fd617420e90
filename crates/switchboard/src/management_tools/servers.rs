//! Who is there, and with which tools.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::{OfServer, answer, permit};
use crate::Readiness;
use crate::host::Host;
use crate::id::{ServerName, WireName};
use crate::query::RefreshOutcome;
use crate::registry::{ToolAnswer, ToolFailure};
use crate::status::ConnectionStatus;

/// How long is waited for servers where nothing is said about it, and at most.
const WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 60);

/// What came of listing a server's tools anew.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Refreshed {
    server: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<Vec<WireName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Vec<WireName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn refresh(host: &Host, of: OfServer) -> Result<ToolAnswer, ToolFailure> {
    let servers = match &of.server {
        Some(server) => {
            permit(host, server)?;
            vec![known(host, server)?]
        }
        None => {
            let all = host.status().into_iter().map(|status| status.name);
            all.filter(|name| permit(host, name.as_str()).is_ok())
                .collect()
        }
    };
    let refreshed = join_all(servers.iter().map(|server| refresh_one(host, server))).await;
    answer(&refreshed)
}

async fn refresh_one(host: &Host, server: &ServerName) -> Refreshed {
    let mut refreshed = Refreshed {
        server: server.to_string(),
        status: "not_connected",
        tool_count: None,
        added: None,
        removed: None,
        error: None,
    };
    let before = tools_of(host, server);
    match host.refresh_tools(server.as_str()).await {
        Ok(RefreshOutcome::Refreshed) => {
            let after = tools_of(host, server);
            refreshed.status = "refreshed";
            refreshed.tool_count = Some(after.len());
            refreshed.added = Some(after.difference(&before).cloned().collect());
            refreshed.removed = Some(before.difference(&after).cloned().collect());
        }
        Ok(_) => {}
        Err(error) => {
            refreshed.status = "error";
            refreshed.error = Some(error.to_string());
        }
    }
    refreshed
}

fn tools_of(host: &Host, server: &ServerName) -> BTreeSet<WireName> {
    let catalog = host.catalog();
    let tools = catalog.tools_of(server);
    tools.map(|tool| tool.wire_name.clone()).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wait {
    servers: Option<Vec<String>>,
    timeout_ms: Option<f64>,
}

/// Where a server has come to.
#[derive(Serialize)]
struct Arrived {
    server: String,
    status: ConnectionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn wait(host: &Host, wait: Wait) -> Result<ToolAnswer, ToolFailure> {
    let names = wait.servers.unwrap_or_default();
    let mut servers = Vec::with_capacity(names.len());
    for name in &names {
        permit(host, name)?;
        servers.push(known(host, name)?);
    }
    let limit = wait.timeout_ms.map_or(WAIT, |millis| {
        let longest = LONGEST_WAIT.as_secs_f64();
        Duration::from_secs_f64((millis / 1000.0).clamp(0.0, longest))
    });
    let readiness = if servers.is_empty() {
        Readiness::All
    } else {
        Readiness::Servers(servers.clone())
    };
    // Whoever is not there by then is shown as it is.
    let _ = tokio::time::timeout(limit, host.wait_for(readiness)).await;
    let is_meant = |name: &ServerName| servers.is_empty() || servers.contains(name);
    let mut statuses = host.status();
    statuses.retain(|status| is_meant(&status.name) && permit(host, status.name.as_str()).is_ok());
    let arrived = statuses.into_iter().map(|status| Arrived {
        server: status.name.to_string(),
        status: status.status,
        error: status.error,
    });
    answer(&arrived.collect::<Vec<_>>())
}

fn known(host: &Host, server: &str) -> Result<ServerName, ToolFailure> {
    let status = host.server_status(server);
    status
        .map(|status| status.name)
        .map_err(|error| ToolFailure::of(&error))
}
