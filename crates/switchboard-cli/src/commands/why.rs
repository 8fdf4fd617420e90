//! `why TOOL`: checks every step from the server's config entry to the permission rule of one tool,
//! and shows the outcome of each step.

use serde::Serialize;
use serde_json::Map;
use switchboard::Host;
use switchboard::catalog::CatalogTool;
use switchboard::content::for_terminal;
use switchboard::permission::{Action, CallFacts};
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard_config::{LaunchDecision, ServerEntry, nearest};

use super::find::find_named_tool;
use super::run_host::{run_with_host, wait_until_started};
use super::tool_name::NamedTool;
use crate::args::WhyArgs;
use crate::context::{Context, LoadedServers};
use crate::diagnosis::{Diagnosis, Outcome, Step};
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::{Console, json, text};
use crate::signals::Signals;

/// Output of `why --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WhyReport {
    tool: String,
    server: String,
    /// Whether the tool can be called. Also `true` if a rule makes the host ask for permission
    /// first.
    ok: bool,
    /// Whether the server is connected but has no tool of this name.
    #[serde(skip)]
    is_unknown: bool,
    steps: Diagnosis,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

pub(crate) async fn run(
    args: &WhyArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let more = args.name.as_slice();
    let (named, _) = find_named_tool(&servers, &context.console, &args.tool, more)?;
    let entry = named.entry;
    let host = context.one_shot_host(&servers, vec![entry.clone()]);
    run_with_host(host, signals, context, async |host| {
        wait_until_started(host, &context.console).await;
        if !entry.is_disabled() {
            // The host records the error in the server's status, which `diagnose` reads.
            let _ = host.start_server(entry.name().as_str()).await;
        }
        let server = host
            .server_details(entry.name().as_str())
            .map_err(|error| Failure::internal(error.to_string()))?;
        let report = diagnose(&named, host, &server, &servers, context);
        context.console.print(&render(&report, &context.console))?;
        Ok(match report {
            WhyReport { ok: true, .. } => Exit::Ok,
            WhyReport {
                is_unknown: true, ..
            } => Exit::Usage,
            _ if server.status.status == ConnectionStatus::NeedsAuth => Exit::LoginNeeded,
            _ => Exit::Unavailable,
        })
    })
    .await
}

fn diagnose(
    named: &NamedTool<'_>,
    host: &Host,
    server: &ServerDetails,
    servers: &LoadedServers,
    context: &Context,
) -> WhyReport {
    let (name, entry) = (named.wire_name.as_str(), named.entry);
    let mut steps = Diagnosis::for_server(entry, server, servers, context);
    let mut hint = steps.hint(entry, server, servers);
    let catalog = host.catalog();
    let found = named.find(&catalog);
    let is_unknown = !steps.is_broken() && found.is_none();
    match found {
        Some(tool) => {
            steps.push(Step::Name, Outcome::Ok, explain_wire_name(tool));
            let (outcome, message) = check_permission(tool, entry, servers, context);
            steps.push(Step::Permission, outcome, message);
            let session = format!(
                "connected (session {} of {})",
                server.generation.0,
                entry.name()
            );
            steps.push(Step::Available, Outcome::Ok, session);
        }
        None => {
            let refused = catalog.rejected().iter().find(|tool| {
                tool.id.server == *entry.name() && named.is_named(tool.id.tool.as_str())
            });
            let message = match refused {
                Some(tool) => tool.reason.clone(),
                None => "the server has no such tool".to_owned(),
            };
            let names: Vec<_> = catalog
                .tools_of(entry.name())
                .map(|tool| tool.wire_name.as_str())
                .collect();
            hint = hint.or_else(|| Some(format!("did you mean {}?", nearest(name, &names)?)));
            steps.push(Step::Name, Outcome::Failed, message);
            steps.push(Step::Permission, Outcome::NotReached, "");
            steps.push(Step::Available, Outcome::NotReached, "");
        }
    }
    WhyReport {
        tool: found
            .map_or(name, |tool| tool.wire_name.as_str())
            .to_owned(),
        server: entry.name().to_string(),
        ok: !steps.is_broken(),
        is_unknown,
        hint,
        steps,
    }
}

/// Explains the wire name of the tool.
fn explain_wire_name(tool: &CatalogTool) -> String {
    let (server, raw) = (tool.id.server.as_str(), tool.id.tool.as_str());
    if tool.wire_name.as_str() == format!("mcp__{server}__{raw}") {
        return format!("tool {raw:?} of server {server:?}");
    }
    format!(
        "tool {raw:?} of server {server:?}, renamed to {} (names are limited to 64 characters of A-Z a-z 0-9 _ -, and \
         the server part must not contain `__`)",
        tool.wire_name
    )
}

/// Checks whether the rules permit the call. `ask` counts as permitted.
fn check_permission(
    tool: &CatalogTool,
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
) -> (Outcome, String) {
    let trusts_annotations = match entry.decide_launch(&servers.trust) {
        LaunchDecision::Launch(spec) => spec.config().trust_annotations,
        _ => false,
    };
    let policy = context.policy(servers);
    let decide = |arguments| {
        policy.decide(&CallFacts {
            tool: &tool.id,
            wire_name: &tool.wire_name,
            annotations: &tool.definition.annotations,
            trust_annotations: trusts_annotations,
            arguments,
        })
    };
    let (mildest, strictest) = (decide(Some(&Map::new())), decide(None));
    match mildest.action {
        Action::Deny => (Outcome::Failed, mildest.to_string()),
        action if action == strictest.action => (Outcome::Ok, mildest.to_string()),
        _ => (
            Outcome::Warning,
            format!("{mildest}; some arguments: {strictest}"),
        ),
    }
}

fn render(report: &WhyReport, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(report);
    }
    let mut page = console
        .style
        .paint(Paint::Bold, &for_terminal(&report.tool));
    page.push('\n');
    page.push_str(&report.steps.render(console));
    if let Some(hint) = &report.hint {
        let hint = text::wrap_and_indent(&format!("hint: {hint}"), 2, None);
        page.push_str(&console.style.paint(Paint::Cyan, &hint));
        page.push('\n');
    }
    page
}
