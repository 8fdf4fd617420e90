//! `doctor`: for every server the whole way from its entry to its tools, and what else may be in the way.

mod environment;
mod provider_limits;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Map;
use switchboard::content::for_terminal;
use switchboard::permission::{Action, Subject};
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard::{Catalog, Host, naming};
use switchboard_config::{Diagnostic, ServerEntry, ServerName};

use super::find::server_named;
use super::run_host::{run_with_host, wait_until_started};
use crate::args::DoctorArgs;
use crate::context::{Context, LoadedServers};
use crate::diagnosis::{Diagnosis, Outcome, Step};
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::{Console, count, json, text};
use crate::signals::Signals;
use environment::Finding;

/// What is found out about one server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Examined {
    name: ServerName,
    ok: bool,
    chain: Diagnosis,
    /// What to type, or to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
}

#[derive(Serialize)]
struct Examination<'a> {
    servers: Vec<Examined>,
    surroundings: Vec<Finding>,
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
        // Whether a server works is known when it was started.
        join_all(entries.iter().map(|entry| wake(host, entry))).await;
        let catalog = host.catalog();
        let examined = entries
            .iter()
            .filter_map(|entry| examine(host, entry, &servers, &catalog, context))
            .collect();
        let examination = Examination {
            servers: examined,
            surroundings: environment::look(&entries, &servers, &catalog, context),
            diagnostics: servers.diagnostics(),
        };
        context
            .console
            .print(&render(&examination, &context.console))?;
        Ok(examination.exit())
    })
    .await
}

async fn wake(host: &Host, entry: &ServerEntry) {
    if !entry.is_disabled() {
        // What comes of it is in the status.
        let _ = host.wake(entry.name().as_str()).await;
    }
}

fn examine(
    host: &Host,
    entry: &ServerEntry,
    servers: &LoadedServers,
    catalog: &Catalog,
    context: &Context,
) -> Option<Examined> {
    let server = host.server_details(entry.name().as_str()).ok()?;
    let mut chain = Diagnosis::for_server(entry, &server, servers, context);
    let (outcome, words) = exposure(entry, &server, catalog, servers, context);
    chain.push(Step::Exposed, outcome, words);
    let is_disabled = server.status.status == ConnectionStatus::Disabled;
    Some(Examined {
        name: entry.name().clone(),
        ok: !chain.is_broken() || is_disabled,
        hint: chain.hint(entry, &server, servers),
        stderr: server.stderr.filter(|_| chain.is_broken()),
        chain,
    })
}

/// What a model gets to see of a server.
fn exposure(
    entry: &ServerEntry,
    server: &ServerDetails,
    catalog: &Catalog,
    servers: &LoadedServers,
    context: &Context,
) -> (Outcome, String) {
    let tools: Vec<_> = catalog.of_server(entry.name()).collect();
    let refused: Vec<_> = catalog
        .refused()
        .iter()
        .filter(|tool| tool.id.server == *entry.name())
        .collect();
    let policy = context.policy(servers);
    let denied = tools.iter().filter(|tool| {
        let subject = Subject {
            tool: &tool.id,
            wire: &tool.wire_name,
            annotations: &tool.definition.annotations,
            trusts_annotations: false,
            arguments: Some(&Map::new()),
        };
        policy.decide(&subject).action == Action::Deny
    });
    let denied = denied.count();
    let part = naming::server_part(entry.name());
    let all = server.status.tools.len() + refused.len();
    let tokens: usize = tools.iter().map(|tool| provider_limits::tokens(tool)).sum();
    let mut parts = vec![format!(
        "{} of {all} as mcp__{part}__*, about {} tokens",
        tools.len(),
        text::thousands(tokens)
    )];
    if denied > 0 {
        parts.push(format!("{denied} denied by rules"));
    }
    let is_fine = parts.len();
    let refused = refused.first();
    parts.extend(refused.map(|tool| format!("{} is not: {}", tool.id.tool.as_str(), tool.reason)));
    let rejected = tools.iter().find_map(|tool| {
        let problem = provider_limits::problems(&tool.definition)
            .into_iter()
            .next()?;
        Some(format!("{}: {problem}", tool.id.tool.as_str()))
    });
    parts.extend(rejected);
    let outcome = if parts.len() == is_fine {
        Outcome::Ok
    } else {
        Outcome::Warning
    };
    (outcome, parts.join("; "))
}

impl Examination<'_> {
    fn exit(&self) -> Exit {
        let is_well = self.servers.iter().all(|server| server.ok) && self.ills_around() == 0;
        if is_well { Exit::Ok } else { Exit::Unavailable }
    }

    /// How many things around the servers are broken.
    fn ills_around(&self) -> usize {
        let is_ill = |finding: &&Finding| finding.outcome == Outcome::Failed;
        self.surroundings.iter().filter(is_ill).count()
    }
}

fn render(examination: &Examination<'_>, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(examination);
    }
    let servers = examination
        .servers
        .iter()
        .map(|server| render_server(server, console));
    let around = environment::render(&examination.surroundings, console);
    let sections: Vec<_> = servers
        .chain([around, summary(examination)])
        .filter(|section| !section.is_empty())
        .collect();
    sections.join("\n")
}

fn render_server(server: &Examined, console: &Console) -> String {
    let mut page = console.style.paint(Paint::Bold, server.name.as_str());
    page.push('\n');
    page.push_str(&server.chain.render(console));
    if let Some(hint) = &server.hint {
        let hint = format!("hint: {}", for_terminal(hint));
        page.push_str(
            &console
                .style
                .paint(Paint::Cyan, &text::block(&hint, 2, None)),
        );
        page.push('\n');
    }
    if let Some(stderr) = &server.stderr {
        let heading = console.style.paint(Paint::Dim, "  stderr");
        page.extend([&heading, "\n", &text::block(stderr, 4, None), "\n"]);
    }
    page
}

fn summary(examination: &Examination<'_>) -> String {
    let servers = &examination.servers;
    let ill = servers.iter().filter(|server| !server.ok).count();
    let around = examination.ills_around();
    let mut ills = Vec::new();
    if ill > 0 {
        ills.push(format!("{ill} cannot be used"));
    }
    if around > 0 {
        ills.push(format!(
            "{} around them to be mended",
            count(around, "thing")
        ));
    }
    match servers.len() {
        0 if ills.is_empty() => "No servers are configured.".to_owned(),
        all if ills.is_empty() => format!("{}: all is well.", count(all, "server")),
        all => format!("{}: {}.", count(all, "server"), ills.join(", ")),
    }
}
