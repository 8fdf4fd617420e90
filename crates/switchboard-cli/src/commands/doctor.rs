//! `doctor`: checks every step from config entry to callable tools for each server, and the
//! environment.
//!
//! The steps of one server are in `crate::diagnosis`; `environment` holds checks that concern all
//! servers.

mod environment;
mod provider_limits;

use std::sync::Arc;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Map;
use switchboard::catalog::{Catalog, CatalogTool};
use switchboard::content::for_terminal;
use switchboard::permission::{Action, CallFacts, Policy};
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard::{Host, naming};
use switchboard_config::{Diagnostic, ServerEntry, ServerName};

use super::find::server_named;
use super::run_host::{run_with_host, wait_until_started};
use crate::args::DoctorArgs;
use crate::context::{Context, LoadedServers};
use crate::diagnosis::{Diagnosis, Outcome, Step};
use crate::failure::{Exit, Failure};
use crate::render::server_text::quote_indented;
use crate::render::style::Paint;
use crate::render::{Console, format_count, json, text};
use crate::signals::Signals;
use environment::Check;

/// Result of the checks for one server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerReport {
    name: ServerName,
    ok: bool,
    #[serde(skip)]
    needs_login: bool,
    steps: Diagnosis,
    /// How to fix the first failed step.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    servers: Vec<ServerReport>,
    environment: Vec<Check>,
    diagnostics: Vec<&'a Diagnostic>,
}

pub(crate) async fn run(
    args: &DoctorArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let entries = match &args.name {
        Some(name) => vec![server_named(&servers, name)?.clone()],
        None => servers.loaded.config.servers.clone(),
    };
    servers.diagnose(&context.console);
    let host = context.one_shot_host(&servers, entries.clone());
    run_with_host(host, signals, context, async |host| {
        wait_until_started(host, &context.console).await;
        // Start lazy servers too: most steps can be checked only after the start.
        join_all(entries.iter().map(|entry| start_server(host, entry))).await;
        let catalog = host.catalog();
        host.check_schemas(catalog.tools()).await;
        let policy = context.policy(&servers);
        let exposed = (&*catalog, &policy);
        let reports = entries
            .iter()
            .filter_map(|entry| diagnose_server(host, entry, &servers, exposed, context))
            .collect();
        let report = DoctorReport {
            servers: reports,
            environment: environment::run_checks(&entries, &servers, &catalog, context),
            diagnostics: servers.diagnostics(),
        };
        context.console.print(&render(&report, &context.console))?;
        Ok(report.exit_code())
    })
    .await
}

async fn start_server(host: &Host, entry: &ServerEntry) {
    if !entry.is_disabled() {
        // The host records the error in the server's status, which the checks read.
        let _ = host.start_server(entry.name().as_str()).await;
    }
}

fn diagnose_server(
    host: &Host,
    entry: &ServerEntry,
    servers: &LoadedServers,
    (catalog, policy): (&Catalog, &Policy),
    context: &Context,
) -> Option<ServerReport> {
    let server = host.server_details(entry.name().as_str()).ok()?;
    let mut steps = Diagnosis::for_server(entry, &server, servers, context);
    let (outcome, message) = check_exposed_tools(entry, &server, catalog, policy);
    steps.push(Step::Available, outcome, message);
    let is_disabled = server.status.status == ConnectionStatus::Disabled;
    Some(ServerReport {
        name: entry.name().clone(),
        ok: !steps.is_broken() || is_disabled,
        needs_login: server.status.status == ConnectionStatus::NeedsAuth,
        hint: steps.hint(entry, &server, servers),
        stderr: server.stderr.filter(|_| steps.is_broken()),
        steps,
    })
}

/// Counts the server's tools that a model can see. Also names the first tool that the catalog
/// rejected, and the first tool that some model provider rejects.
fn check_exposed_tools(
    entry: &ServerEntry,
    server: &ServerDetails,
    catalog: &Catalog,
    policy: &Policy,
) -> (Outcome, String) {
    let exposed: Vec<_> = catalog.tools_of(entry.name()).collect();
    let rejected = catalog.rejected_of(entry.name());
    let tokens = exposed.iter().map(|tool| provider_limits::tokens(tool));
    let mut parts = vec![format!(
        "{} of {} tools available as mcp__{}__* (~{} tokens)",
        exposed.len(),
        server.status.tools.len() + rejected.len(),
        naming::server_part(entry.name()),
        text::format_thousands(tokens.sum())
    )];
    let denied = count_denied(&exposed, policy);
    if denied > 0 {
        parts.push(format!("{denied} denied by rules"));
    }
    let first_rejected = rejected.first().map(|tool| {
        let name = tool.id.tool.as_str();
        format!("{name} is not available: {}", tool.reason)
    });
    let first_provider_problem = exposed.iter().find_map(|tool| {
        let problems = provider_limits::problems(&tool.definition);
        let problem = problems.first()?;
        Some(format!("{}: {problem}", tool.id.tool.as_str()))
    });
    let outcome = match (&first_rejected, &first_provider_problem) {
        (None, None) => Outcome::Ok,
        _ => Outcome::Warning,
    };
    parts.extend(first_rejected);
    parts.extend(first_provider_problem);
    (outcome, parts.join("; "))
}

/// Counts the tools whose calls without arguments the rules deny.
fn count_denied(tools: &[&Arc<CatalogTool>], policy: &Policy) -> usize {
    let is_denied = |tool: &&&Arc<CatalogTool>| {
        let input = CallFacts {
            tool: &tool.id,
            wire_name: &tool.wire_name,
            annotations: &tool.definition.annotations,
            trust_annotations: false,
            arguments: Some(&Map::new()),
        };
        policy.decide(&input).action == Action::Deny
    };
    tools.iter().filter(is_denied).count()
}

impl DoctorReport<'_> {
    fn exit_code(&self) -> Exit {
        let mut broken = self.servers.iter().filter(|server| !server.ok).peekable();
        if self.environment_failures() > 0 {
            Exit::Unavailable
        } else if broken.peek().is_none() {
            Exit::Ok
        } else if broken.all(|server| server.needs_login) {
            Exit::LoginNeeded
        } else {
            Exit::Unavailable
        }
    }

    fn environment_failures(&self) -> usize {
        self.count_checks(Outcome::Failed)
    }

    /// Counts the warnings of the environment and of the servers whose report is `ok`.
    fn warnings(&self) -> usize {
        let working = self.servers.iter().filter(|server| server.ok);
        let of_servers: usize = working.map(|server| server.steps.warnings()).sum();
        of_servers + self.count_checks(Outcome::Warning)
    }

    fn count_checks(&self, outcome: Outcome) -> usize {
        let checks = self.environment.iter();
        checks.filter(|check| check.outcome == outcome).count()
    }
}

fn render(report: &DoctorReport<'_>, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(report);
    }
    let servers = report
        .servers
        .iter()
        .map(|server| render_server(server, console));
    let environment = environment::render(&report.environment, console);
    let sections: Vec<_> = servers
        .chain([environment, summarize(report)])
        .filter(|section| !section.is_empty())
        .collect();
    sections.join("\n")
}

fn render_server(server: &ServerReport, console: &Console) -> String {
    let mut page = console.style.paint(Paint::Bold, server.name.as_str());
    page.push('\n');
    page.push_str(&server.steps.render(console));
    if let Some(hint) = &server.hint {
        let hint = format!("hint: {}", for_terminal(hint));
        page.push_str(
            &console
                .style
                .paint(Paint::Cyan, &text::wrap_and_indent(&hint, 2, None)),
        );
        page.push('\n');
    }
    if let Some(stderr) = &server.stderr {
        let heading = console.style.paint(Paint::Dim, "  stderr");
        page.extend([
            &heading,
            "\n",
            &quote_indented(stderr, 4, console.columns),
            "\n",
        ]);
    }
    page
}

fn summarize(report: &DoctorReport<'_>) -> String {
    let servers = &report.servers;
    let broken = servers.iter().filter(|server| !server.ok).count();
    let environment = report.environment_failures();
    let warnings = report.warnings();
    let mut problems = Vec::new();
    if broken > 0 {
        problems.push(format!("{broken} broken"));
    }
    if environment > 0 {
        problems.push(format_count(environment, "problem") + " in the environment");
    }
    if warnings > 0 {
        problems.push(format_count(warnings, "warning"));
    }
    match servers.len() {
        0 if problems.is_empty() => "No servers configured.".to_owned(),
        all if problems.is_empty() => {
            format!("{}: no problems found.", format_count(all, "server"))
        }
        all => format!("{}: {}.", format_count(all, "server"), problems.join(", ")),
    }
}
