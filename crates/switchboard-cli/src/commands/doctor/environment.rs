//! What is not about one server: programs, proxies, certificates, and what all tools cost together.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::Serialize;
use switchboard::content::for_terminal;
use switchboard::{Catalog, naming};
use switchboard_config::{
    Admission, Diagnostic, Loaded, Scope, ServerEntry, TransportConfig, Trust,
};

use super::provider_limits;
use crate::context::{Context, LoadedServers};
use crate::diagnosis::Outcome;
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, text};

/// What most servers are started by.
const RUNNERS: [&str; 5] = ["node", "npx", "uvx", "python3", "docker"];
/// Some providers refuse more tools than this at a time.
const MANY_TOOLS: usize = 128;
/// A list of tools that costs more than this is felt in every request.
const MANY_TOKENS: usize = 25_000;

/// One thing that was looked at.
#[derive(Serialize)]
pub(super) struct Finding {
    what: String,
    pub(super) outcome: Outcome,
    words: String,
}

impl Finding {
    fn new(what: impl Into<String>, outcome: Outcome, words: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            outcome,
            words: words.into(),
        }
    }
}

pub(super) fn look(
    entries: &[ServerEntry],
    servers: &LoadedServers,
    catalog: &Catalog,
    context: &Context,
) -> Vec<Finding> {
    let mut findings = files(servers);
    findings.extend(runners(entries, context));
    findings.extend(proxies(context));
    findings.extend(certificates(context));
    findings.extend(clashes(entries));
    findings.extend(shadows(entries, &servers.loaded));
    findings.extend(cost(catalog));
    findings
}

/// Files that cannot be used as a whole.
fn files(servers: &LoadedServers) -> Vec<Finding> {
    let closed = servers.settings.closed.iter().map(|closed| {
        let words = format!("nothing can be called: {}", told(&closed.problem));
        Finding::new("settings", Outcome::Failed, words)
    });
    let diagnostics = servers.loaded.diagnostics.iter();
    let broken = diagnostics
        .filter(|diagnostic| diagnostic.server.is_none())
        .map(|diagnostic| Finding::new("config", Outcome::Failed, told(diagnostic)));
    closed.chain(broken).collect()
}

/// A finding about a file, on one line.
fn told(diagnostic: &Diagnostic) -> String {
    match &diagnostic.origin {
        Some(origin) => format!("{} ({origin})", diagnostic.message),
        None => diagnostic.message.clone(),
    }
}

/// The programs that most servers need, and whether those that these servers need are there.
fn runners(entries: &[ServerEntry], context: &Context) -> Vec<Finding> {
    let findings = RUNNERS.into_iter().filter_map(|runner| {
        let users: Vec<_> = entries
            .iter()
            .filter(|entry| command_of(entry).as_deref() == Some(runner))
            .map(|entry| entry.name().as_str())
            .collect();
        match (context.program(runner, None), users.is_empty()) {
            (Some(path), _) => Some(Finding::new(
                runner,
                Outcome::Ok,
                path.display().to_string(),
            )),
            (None, true) => None,
            (None, false) => Some(Finding::new(
                runner,
                Outcome::Failed,
                format!("is not on the PATH; needed by {}", users.join(", ")),
            )),
        }
    });
    findings.collect()
}

fn command_of(entry: &ServerEntry) -> Option<String> {
    let Admission::Launch(spec) = entry.admit(&Trust::project_for_this_run()) else {
        return None;
    };
    match &spec.config().transport {
        TransportConfig::Stdio(stdio) => Some(stdio.command.clone()),
        _ => None,
    }
}

fn proxies(context: &Context) -> Vec<Finding> {
    let names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
    let set = names
        .into_iter()
        .filter_map(|name| Some((name, context.nonempty_variable(name)?)));
    set.map(|(name, value)| {
        let host = value.split_once("://").map(|(_, rest)| rest);
        // A password may stand before the host.
        let shown = host.map(|rest| rest.rsplit('@').next().unwrap_or(rest));
        match shown {
            Some(host) if !host.is_empty() => {
                Finding::new(name, Outcome::Ok, format!("passed on to servers: {host}"))
            }
            _ => Finding::new(
                name,
                Outcome::Warning,
                "is no address; write http://host:port",
            ),
        }
    })
    .collect()
}

fn certificates(context: &Context) -> Vec<Finding> {
    let names = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
    let set = names
        .into_iter()
        .filter_map(|name| Some((name, context.nonempty_variable(name)?)));
    set.map(|(name, value)| match File::open(Path::new(value)) {
        Ok(_) => Finding::new(name, Outcome::Ok, value),
        Err(error) => Finding::new(
            name,
            Outcome::Warning,
            format!("{value} cannot be read: {error}"),
        ),
    })
    .collect()
}

/// LoadedServers whose names differ by what a model does not see.
fn clashes(entries: &[ServerEntry]) -> Vec<Finding> {
    let mut by_part: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        let part = naming::server_part(entry.name()).to_lowercase();
        by_part.entry(part).or_default().push(entry.name().as_str());
    }
    by_part
        .into_values()
        .filter(|names| names.len() > 1)
        .map(|names| {
            let words = format!("{} are easily mistaken for each other", names.join(" and "));
            Finding::new("names", Outcome::Warning, words)
        })
        .collect()
}

/// Entries that do not count because another has their name.
fn shadows(entries: &[ServerEntry], loaded: &Loaded) -> Vec<Finding> {
    let shadows = loaded.shadowed.iter().filter_map(|entry| {
        let name = entry.name();
        let winner = entries.iter().find(|winner| winner.name() == name)?;
        let words = format!(
            "{name} of {} is replaced by that of {}",
            entry.origin(),
            winner.origin()
        );
        // A project that takes the name of somebody's own server is worth a look.
        let is_strange = winner.scope() == Scope::Project && entry.scope() != Scope::Project;
        let outcome = if is_strange {
            Outcome::Warning
        } else {
            Outcome::Ok
        };
        Some(Finding::new("names", outcome, words))
    });
    shadows.collect()
}

/// What the whole list costs a model.
fn cost(catalog: &Catalog) -> Option<Finding> {
    let tools = catalog.tools();
    if tools.is_empty() {
        return None;
    }
    let tokens: usize = tools.iter().map(|tool| provider_limits::tokens(tool)).sum();
    let words = format!(
        "{} for a model, about {} tokens",
        tools.len(),
        text::thousands(tokens)
    );
    let (outcome, more) = if tools.len() > MANY_TOOLS {
        (Outcome::Warning, "; some providers take 128 at most")
    } else if tokens > MANY_TOKENS {
        (
            Outcome::Warning,
            "; `switchboard disable` switches servers off that are not needed",
        )
    } else {
        (Outcome::Ok, "")
    };
    Some(Finding::new("tools", outcome, format!("{words}{more}")))
}

pub(super) fn render(findings: &[Finding], console: &Console) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2, Overflow::Wrap).indent(2);
    for finding in findings {
        let (symbol, paint) = finding.outcome.symbol();
        table.row(vec![
            Cell::new(symbol).paint(paint),
            Cell::new(finding.what.as_str()),
            Cell::new(for_terminal(&finding.words)),
        ]);
    }
    let heading = console.style.paint(Paint::Bold, "Around them");
    format!(
        "{heading}\n{}",
        table.render(console.columns, console.style)
    )
}
