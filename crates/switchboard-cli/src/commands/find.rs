//! Finds the server or tool that a command names, and checks that the server may be started.
//!
//! Errors name the nearest known server or tool.

use std::sync::Arc;

use switchboard::catalog::CatalogTool;
use switchboard::status::{ConnectionStatus, ServerStatus};
use switchboard::{Host, naming};
use switchboard_config::{LaunchDecision, PendingReason, ServerEntry, nearest};

use super::tool_name::{NamedTool, read_tool};
use crate::context::{Context, LoadedServers};
use crate::failure::{Failure, Kind};
use crate::render::Console;
use switchboard::content::quote_for_shell;

/// The hint for a name that cannot be found because the config has no servers.
pub(super) const NO_SERVERS_HINT: &str = "no servers configured; add one with `switchboard add`";

/// Returns the configured server with this name.
pub(super) fn server_named<'a>(
    servers: &'a LoadedServers,
    name: &str,
) -> Result<&'a ServerEntry, Failure> {
    let config = &servers.loaded.config;
    let by_part = || {
        // Models and `tools` show the server part, which differs from a long name.
        let mut entries = config.servers.iter();
        entries.find(|entry| naming::server_part(entry.name()) == name)
    };
    config.server(name).or_else(by_part).ok_or_else(|| {
        let names: Vec<_> = config
            .servers
            .iter()
            .map(|entry| entry.name().as_str())
            .collect();
        let failure = Failure::new(Kind::UnknownServer, format!("no server named {name:?}"));
        match (nearest(name, &names), names.is_empty()) {
            (Some(nearest), _) => {
                failure.hint(format!("did you mean {}?", quote_for_shell(nearest)))
            }
            (None, false) => failure.hint("run `switchboard list` to see all servers"),
            (None, true) => failure.hint(NO_SERVERS_HINT),
        }
    })
}

/// Finds the tool of a command, as [`read_tool`] does, and prints the config problems as
/// [`find_server`] does.
pub(super) fn find_named_tool<'a, 'w>(
    servers: &'a LoadedServers,
    console: &Console,
    word: &str,
    more: &'w [String],
) -> Result<(NamedTool<'a>, &'w [String]), Failure> {
    let found = read_tool(servers, word, more);
    match &found {
        Ok((tool, _)) => servers.diagnose_one(tool.entry, console),
        Err(_) => servers.diagnose(console),
    }
    found
}

/// Finds the server of a command and prints its config problems. If the server is not found, prints
/// the problems of all entries, because any of them may be the cause.
pub(super) fn find_server<'a>(
    servers: &'a LoadedServers,
    console: &Console,
    find: impl FnOnce(&'a LoadedServers) -> Result<&'a ServerEntry, Failure>,
) -> Result<&'a ServerEntry, Failure> {
    let found = find(servers);
    match &found {
        Ok(entry) => servers.diagnose_one(entry, console),
        Err(_) => servers.diagnose(console),
    }
    found
}

/// Checks that a server is enabled, valid, approved and allowed by the administrator's policy.
pub(super) fn require_launchable(
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
) -> Result<(), Failure> {
    require_enabled(entry)?;
    let name = entry.name();
    match entry.decide_launch(&servers.trust) {
        LaunchDecision::Invalid(problem) => Err(Failure::new(
            Kind::Config,
            format!(
                "server {name} has an invalid entry: {} ({})",
                problem.message,
                entry.origin()
            ),
        )
        .maybe_hint(problem.hint)),
        LaunchDecision::AwaitingApproval { reason, hint } => {
            let what = match reason {
                PendingReason::New => "is not approved",
                PendingReason::Changed => "changed since you approved or rejected it",
            };
            Err(Failure::new(
                Kind::Untrusted,
                format!("server {name} was not started: it comes from the project and {what}"),
            )
            .hint(format!(
                "{hint}\nfor this run only: {}",
                context.rerun_with("--trust-project")
            )))
        }
        LaunchDecision::Refused(refusal) => Err(Failure::new(
            Kind::Untrusted,
            format!("server {name} was not started: {refusal}"),
        )
        .hint(refusal.hint())),
        LaunchDecision::Launch(_) => Ok(()),
    }
}

fn require_enabled(entry: &ServerEntry) -> Result<(), Failure> {
    let name = entry.name();
    let disabled = |message| Err(Failure::new(Kind::Unavailable, message));
    match entry.disabled_by() {
        Some(origin) => {
            let failure = disabled(format!("server {name} is disabled ({origin})"));
            failure.map_err(|failure| failure.maybe_hint(entry.enable_hint().map(str::to_owned)))
        }
        None if entry.is_disabled() => disabled(format!(
            "server {name} is disabled in its config entry ({})",
            entry.origin()
        ))
        .map_err(|failure| failure.hint("remove `disabled` from its entry")),
        None => Ok(()),
    }
}

/// Returns the tool from the catalog. If the tool is missing, starts the server to refresh its
/// listing: the catalog may contain only a cached listing.
pub(super) async fn find_tool(
    host: &Host,
    named: &NamedTool<'_>,
) -> Result<Arc<CatalogTool>, Failure> {
    let server = named.entry.name();
    if named.find(&host.catalog()).is_none() {
        // The host records the error in the server's status, which is read below.
        let _ = host.start_server(server.as_str()).await;
    }
    let catalog = host.catalog();
    if let Some(tool) = named.find(&catalog) {
        return Ok(Arc::clone(tool));
    }
    let status = host
        .server_status(server.as_str())
        .map_err(|error| Failure::internal(error.to_string()))?;
    if status.status != ConnectionStatus::Connected || status.error.is_some() {
        return Err(unavailable_error(&status));
    }
    let names: Vec<_> = catalog
        .tools_of(server)
        .map(|tool| tool.wire_name.as_str())
        .collect();
    let name = named.wire_name.as_str();
    let failure = Failure::new(Kind::UnknownTool, format!("unknown tool {name}"));
    Err(match nearest(name, &names) {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None => failure.hint(format!(
            "run `switchboard tools mcp__{}__` to list its tools",
            naming::server_part(server)
        )),
    })
}

/// Builds the error for a server that is not connected or could not list its tools.
pub(super) fn unavailable_error(status: &ServerStatus) -> Failure {
    let kind = match status.status {
        ConnectionStatus::NeedsAuth => Kind::LoginNeeded,
        _ => Kind::Unavailable,
    };
    let state = match status.status {
        ConnectionStatus::Failed => " failed".to_owned(),
        ConnectionStatus::Connected => String::new(),
        other => format!(" is {other}"),
    };
    let reason = status.error.as_ref().map(|error| format!(": {error}"));
    let message = format!(
        "server {}{state}{}",
        status.name,
        reason.unwrap_or_default()
    );
    Failure::new(kind, message).maybe_hint(status.detail.clone())
}
