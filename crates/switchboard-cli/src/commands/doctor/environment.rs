//! Checks that concern all servers: config files, programs, proxies, certificates, names, token
//! cost.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::Serialize;
use switchboard::catalog::Catalog;
use switchboard::content::for_terminal;
use switchboard::naming;
use switchboard_config::{
    Diagnostic, LaunchDecision, LoadedConfig, Scope, ServerEntry, TransportConfig, Trust,
};

use super::provider_limits;
use crate::context::{Context, LoadedServers};
use crate::diagnosis::Outcome;
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, text};

/// The programs with which most stdio servers are started.
const RUNNERS: [&str; 5] = ["node", "npx", "uvx", "python3", "docker"];
/// Some model providers reject requests with more tools than this.
const MAX_TOOLS: usize = 128;
/// Estimated tokens of the tool list above which `doctor` warns that the list makes every model
/// request expensive.
const TOKEN_WARNING: usize = 25_000;

/// A check that concerns all servers, and its outcome.
#[derive(Serialize)]
pub(super) struct Check {
    #[serde(rename = "check")]
    subject: String,
    pub(super) outcome: Outcome,
    message: String,
}

impl Check {
    fn new(subject: impl Into<String>, outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            outcome,
            message: message.into(),
        }
    }
}

pub(super) fn run_checks(
    entries: &[ServerEntry],
    servers: &LoadedServers,
    catalog: &Catalog,
    context: &Context,
) -> Vec<Check> {
    let mut checks = files(servers);
    checks.extend(runners(entries, context));
    checks.extend(proxies(context));
    checks.extend(certificates(context));
    checks.extend(name_clashes(entries));
    checks.extend(overridden_entries(entries, &servers.loaded));
    checks.extend(token_cost(catalog));
    checks
}

/// Reports settings that block all calls, and config problems that belong to no single server, such
/// as an unreadable file.
fn files(servers: &LoadedServers) -> Vec<Check> {
    let blocking = servers.settings.blocking_errors.iter().map(|blocking| {
        let message = format!("all calls are blocked: {}", one_line(&blocking.problem));
        Check::new("settings", Outcome::Failed, message)
    });
    let diagnostics = servers.loaded.diagnostics.iter();
    let broken = diagnostics
        .filter(|diagnostic| diagnostic.server.is_none())
        .map(|diagnostic| Check::new("config", Outcome::Failed, one_line(diagnostic)));
    blocking.chain(broken).collect()
}

fn one_line(diagnostic: &Diagnostic) -> String {
    match &diagnostic.origin {
        Some(origin) => format!("{} ({origin})", diagnostic.message),
        None => diagnostic.message.clone(),
    }
}

/// Reports which of [`RUNNERS`] are installed, and which missing ones a server needs.
fn runners(entries: &[ServerEntry], context: &Context) -> Vec<Check> {
    let checks = RUNNERS.into_iter().filter_map(|runner| {
        let users: Vec<_> = entries
            .iter()
            .filter(|entry| command_of(entry).as_deref() == Some(runner))
            .map(|entry| entry.name().as_str())
            .collect();
        match (context.program(runner, None), users.is_empty()) {
            (Some(path), _) => Some(Check::new(runner, Outcome::Ok, path.display().to_string())),
            (None, true) => None,
            (None, false) => Some(Check::new(
                runner,
                Outcome::Failed,
                format!("not found on PATH; needed by {}", users.join(", ")),
            )),
        }
    });
    checks.collect()
}

fn command_of(entry: &ServerEntry) -> Option<String> {
    let LaunchDecision::Launch(spec) = entry.decide_launch(&Trust::project_for_this_run()) else {
        return None;
    };
    match &spec.config().transport {
        TransportConfig::Stdio(stdio) => Some(stdio.command.clone()),
        _ => None,
    }
}

fn proxies(context: &Context) -> Vec<Check> {
    let names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
    let set = names
        .into_iter()
        .filter_map(|name| Some((name, context.nonempty_variable(name)?)));
    set.map(|(name, value)| {
        let host = value.split_once("://").map(|(_, rest)| rest);
        // A proxy URL may contain user name and password before the `@`; do not print them.
        let shown = host.map(|rest| rest.rsplit('@').next().unwrap_or(rest));
        match shown {
            Some(host) if !host.is_empty() => Check::new(
                name,
                Outcome::Ok,
                format!("proxy {host} (passed to servers)"),
            ),
            _ => Check::new(
                name,
                Outcome::Warning,
                "not a valid proxy URL; expected http://host:port",
            ),
        }
    })
    .collect()
}

fn certificates(context: &Context) -> Vec<Check> {
    let names = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
    let set = names
        .into_iter()
        .filter_map(|name| Some((name, context.nonempty_variable(name)?)));
    set.map(|(name, value)| match File::open(Path::new(value)) {
        Ok(_) => Check::new(name, Outcome::Ok, value),
        Err(error) => Check::new(
            name,
            Outcome::Warning,
            format!("{value} cannot be read: {error}"),
        ),
    })
    .collect()
}

/// Reports servers that look alike to a model: ignoring case, their tools have the same server part
/// in `mcp__server__tool`.
fn name_clashes(entries: &[ServerEntry]) -> Vec<Check> {
    let mut by_part: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        let part = naming::server_part(entry.name()).to_lowercase();
        by_part.entry(part).or_default().push(entry.name().as_str());
    }
    by_part
        .into_values()
        .filter(|names| names.len() > 1)
        .map(|names| {
            let message = format!("{} differ only in case or punctuation", names.join(" and "));
            Check::new("names", Outcome::Warning, message)
        })
        .collect()
}

/// Reports entries that are overridden by an entry with the same name in a higher scope.
fn overridden_entries(entries: &[ServerEntry], loaded: &LoadedConfig) -> Vec<Check> {
    let overridden_entries = loaded.overridden.iter().filter_map(|entry| {
        let name = entry.name();
        let winner = entries.iter().find(|winner| winner.name() == name)?;
        let message = format!(
            "{name} from {} is overridden by {}",
            entry.origin(),
            winner.origin()
        );
        // A project that reuses the name of one of the user's own servers is suspicious.
        let is_suspicious = winner.scope() == Scope::Project && entry.scope() != Scope::Project;
        let outcome = if is_suspicious {
            Outcome::Warning
        } else {
            Outcome::Ok
        };
        Some(Check::new("names", outcome, message))
    });
    overridden_entries.collect()
}

/// Reports the estimated number of tokens that the tool list adds to every model request.
fn token_cost(catalog: &Catalog) -> Option<Check> {
    let tools = catalog.tools();
    if tools.is_empty() {
        return None;
    }
    let tokens: usize = tools.iter().map(|tool| provider_limits::tokens(tool)).sum();
    let message = format!(
        "{} exposed to models (~{} tokens)",
        tools.len(),
        text::format_thousands(tokens)
    );
    let (outcome, more) = if tools.len() > MAX_TOOLS {
        (Outcome::Warning, "; some providers accept at most 128")
    } else if tokens > TOKEN_WARNING {
        (
            Outcome::Warning,
            "; disable unused servers with `switchboard disable NAME`",
        )
    } else {
        (Outcome::Ok, "")
    };
    Some(Check::new("tools", outcome, format!("{message}{more}")))
}

pub(super) fn render(checks: &[Check], console: &Console) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2, Overflow::Wrap).indent(2);
    for check in checks {
        let (symbol, paint) = check.outcome.symbol();
        table.row(vec![
            Cell::new(symbol).paint(paint),
            Cell::new(check.subject.as_str()),
            Cell::new(for_terminal(&check.message)),
        ]);
    }
    let heading = console.style.paint(Paint::Bold, "Environment");
    format!(
        "{heading}\n{}",
        table.render(console.columns, console.style)
    )
}
