//! `restart NAME`: forgets what is cached about a server, starts the server and reports the result.

use std::collections::BTreeSet;

use switchboard::cache::server_cache_key;
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard_config::{LaunchDecision, ServerEntry, Trust};

use super::find::{find_server, require_launchable, server_named, unavailable_error};
use super::list::symbol;
use super::run_host::{run_with_host, wait_until_started};
use crate::args::GetArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::render::{Console, format_count, format_duration, json, text};
use crate::signals::Signals;

/// Maximum number of tool names that are listed as added or removed.
const MAX_NAMES: usize = 10;

pub(crate) async fn run(
    args: &GetArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let entry = find_server(&servers, &context.console, |servers| {
        server_named(servers, &args.name)
    })?;
    require_launchable(entry, &servers, context)?;
    let before: BTreeSet<String> = (context.cached_tools(entry).iter())
        .map(|tool| tool.name.clone())
        .collect();
    context.forget_cached(entry);
    let host = context.one_shot_host(&servers, vec![entry.clone()]);
    run_with_host(host, signals, context, async |host| {
        wait_until_started(host, &context.console).await;
        let name = entry.name().as_str();
        // The host records the error in the server's status, which is read below.
        let _ = host.start_server(name).await;
        let server = host
            .server_details(name)
            .map_err(|error| Failure::internal(error.to_string()))?;
        if server.status.status != ConnectionStatus::Connected || server.status.error.is_some() {
            return Err(unavailable_error(&server.status));
        }
        context
            .console
            .print(&render(entry, &server, &before, &context.console))?;
        Ok(Exit::Ok)
    })
    .await
}

impl Context {
    /// Removes the protocol era and the tools of the server from the cache.
    fn forget_cached(&self, entry: &ServerEntry) {
        // The launch spec is only needed for the cache key; no server is launched.
        let LaunchDecision::Launch(spec) = entry.decide_launch(&Trust::project_for_this_run())
        else {
            return;
        };
        if let Some(key) = server_cache_key(&spec, Some(self.directory())) {
            self.server_cache().forget(&key);
        }
    }
}

fn render(
    entry: &ServerEntry,
    server: &ServerDetails,
    before: &BTreeSet<String>,
    console: &Console,
) -> String {
    if console.is_json() {
        let origin = entry.origin();
        let details = server;
        return json::pretty(&json::ServerJson { details, origin });
    }
    let (symbol, paint) = symbol(server.status.status);
    let took = server.connect_time.map(format_duration).unwrap_or_default();
    let tools = format_count(server.status.tools.len(), "tool");
    let handshake = server.handshake.as_ref();
    let protocol = handshake.map(|handshake| format!(", protocol {}", handshake.version));
    let mut page = format!(
        "{} {}: {tools}{}, connected in {took}",
        console.style.paint(paint, symbol),
        server.status.name,
        protocol.unwrap_or_default(),
    );
    let after: BTreeSet<String> = (server.status.tools.iter())
        .map(|tool| tool.name.clone())
        .collect();
    for (label, names) in [
        ("added", after.difference(before).collect::<Vec<_>>()),
        ("removed", before.difference(&after).collect()),
    ] {
        if !before.is_empty() && !names.is_empty() {
            page.extend(["\n  ", label, ": ", &list_names(&names)]);
        }
    }
    page
}

fn list_names(names: &[&String]) -> String {
    let shown: Vec<_> = (names.iter().take(MAX_NAMES))
        .map(|name| text::one_line(name))
        .collect();
    let more = names.len() - shown.len();
    let ending = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    shown.join(", ") + &ending
}
