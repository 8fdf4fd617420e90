//! `why TOOL`: the way of one tool, from the entry of its server to the rule that decides on it, and the
//! first thing on that way that does not hold.

use serde::Serialize;
use serde_json::Map;
use switchboard::content::for_terminal;
use switchboard::permission::{Action, Subject};
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard::{CatalogTool, Host};
use switchboard_config::{Admission, ServerEntry, nearest};

use super::find::{find_server, server_of_tool};
use super::run_host::{run_with_host, wait_until_started};
use crate::args::WhyArgs;
use crate::context::{Context, LoadedServers};
use crate::diagnosis::{Diagnosis, Outcome, Step};
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::{Console, json, text};
use crate::signals::Signals;

/// The whole answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    tool: String,
    server: String,
    /// Whether a model can call it, if need be after a question.
    ok: bool,
    /// The server is fine and has no such tool.
    #[serde(skip)]
    is_unknown: bool,
    chain: Diagnosis,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

pub(crate) async fn run(
    args: &WhyArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let entry = find_server(&servers, &context.console, |servers| {
        server_of_tool(servers, &args.tool)
    })?;
    let host = context.one_shot_host(&servers, vec![entry.clone()]);
    run_with_host(host, signals, context, async |host| {
        wait_until_started(host, &context.console).await;
        if !entry.is_disabled() {
            // What comes of it is in the status.
            let _ = host.wake(entry.name().as_str()).await;
        }
        let server = host
            .server_details(entry.name().as_str())
            .map_err(|error| Failure::internal(error.to_string()))?;
        let answer = answer(&args.tool, host, entry, &server, &servers, context);
        context.console.print(&render(&answer, &context.console))?;
        Ok(match answer {
            Answer { ok: true, .. } => Exit::Ok,
            Answer {
                is_unknown: true, ..
            } => Exit::Usage,
            _ if server.status.status == ConnectionStatus::NeedsAuth => Exit::LoginNeeded,
            _ => Exit::Unavailable,
        })
    })
    .await
}

fn answer(
    name: &str,
    host: &Host,
    entry: &ServerEntry,
    server: &ServerDetails,
    servers: &LoadedServers,
    context: &Context,
) -> Answer {
    let mut chain = Diagnosis::for_server(entry, server, servers, context);
    let mut hint = chain.hint(entry, server, servers);
    let catalog = host.catalog();
    let is_unknown = !chain.is_broken() && catalog.find(name).is_none();
    match catalog.find(name) {
        Some(tool) => {
            chain.push(Step::Name, Outcome::Ok, spelling(tool));
            let (outcome, words) = permission(tool, entry, servers, context);
            chain.push(Step::Permission, outcome, words);
            let session = format!("session {} of {}", server.generation.0, entry.name());
            chain.push(Step::Exposed, Outcome::Ok, session);
        }
        None => {
            let refused = catalog
                .refused()
                .iter()
                .find(|tool| name.ends_with(tool.id.tool.as_str()));
            let words = match refused {
                Some(tool) => tool.reason.clone(),
                None => "the server lists no such tool".to_owned(),
            };
            let names: Vec<_> = catalog
                .tools()
                .iter()
                .map(|tool| tool.wire_name.as_str())
                .collect();
            hint = hint.or_else(|| Some(format!("did you mean {}?", nearest(name, &names)?)));
            chain.push(Step::Name, Outcome::Failed, words);
            chain.push(Step::Permission, Outcome::NotReached, "");
            chain.push(Step::Exposed, Outcome::NotReached, "");
        }
    }
    Answer {
        tool: name.to_owned(),
        server: entry.name().to_string(),
        ok: !chain.is_broken(),
        is_unknown,
        hint,
        chain,
    }
}

/// How the name on the wire came to be.
fn spelling(tool: &CatalogTool) -> String {
    let (server, raw) = (tool.id.server.as_str(), tool.id.tool.as_str());
    if tool.wire_name.as_str() == format!("mcp__{server}__{raw}") {
        return format!("{raw:?} of {server:?}, spelled as they are");
    }
    format!(
        "{raw:?} of {server:?}; spelled {} because models take at most 64 characters of A-Z a-z 0-9 _ -, \
         and a server's part holds no `__`: the end tells it from others",
        tool.wire_name
    )
}

/// Which rule decides. What is only asked about can be called.
fn permission(
    tool: &CatalogTool,
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
) -> (Outcome, String) {
    let trusts_annotations = match entry.admit(&servers.trust) {
        Admission::Launch(spec) => spec.config().trust_annotations,
        _ => false,
    };
    let policy = context.policy(servers);
    let decide = |arguments| {
        policy.decide(&Subject {
            tool: &tool.id,
            wire: &tool.wire_name,
            annotations: &tool.definition.annotations,
            trusts_annotations,
            arguments,
        })
    };
    let (mildest, strictest) = (decide(Some(&Map::new())), decide(None));
    match mildest.action {
        Action::Deny => (Outcome::Failed, mildest.to_string()),
        action if action == strictest.action => (Outcome::Ok, mildest.to_string()),
        _ => (
            Outcome::Warning,
            format!("{mildest}; with some arguments {strictest}"),
        ),
    }
}

fn render(answer: &Answer, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(answer);
    }
    let mut page = console
        .style
        .paint(Paint::Bold, &for_terminal(&answer.tool));
    page.push('\n');
    page.push_str(&answer.chain.render(console));
    if let Some(hint) = &answer.hint {
        let hint = text::block(&format!("hint: {hint}"), 2, None);
        page.push_str(&console.style.paint(Paint::Cyan, &hint));
        page.push('\n');
    }
    page
}
