//! `policy test TOOL [ARGS]`: which rule decides on a call, and why. The call is not made.
//!
//! What a server said of its tools the last time is enough; only one that was never seen is started, and
//! one that may not be is judged by its name alone.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use switchboard::content::for_terminal;
use switchboard::id::{ToolId, WireName};
use switchboard::mcp::{Json, Tool, ToolAnnotations};
use switchboard::naming;
use switchboard::permission::{Action, Decision, Reason, Subject, WrittenRule};
use switchboard_config::{Admission, Scope, ServerEntry};

use super::call::{coerce_arguments, read_stdin};
use super::find::{find_server, find_tool, require_launchable, server_of_tool};
use super::run_host::{LazyServers, run_with_host, start_servers};
use crate::args::PolicyTestArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, count, json};
use crate::signals::Signals;
use crate::tool_arguments::{ArgumentInput, parse};
use crate::tool_schema::ToolSchema;

/// The whole answer.
#[derive(Serialize)]
struct Answer {
    tool: WireName,
    server: String,
    arguments: Map<String, Value>,
    action: Action,
    /// In words: on which grounds.
    why: String,
    /// The rule that decides, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Arc<WrittenRule>>,
    /// Every rule that fits, in reading order.
    fitting: Vec<Arc<WrittenRule>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// What is known of the tool.
struct Known {
    tool: ToolId,
    annotations: ToolAnnotations,
    /// `None`: nothing is known but the name.
    schema: Option<Json>,
    note: Option<String>,
}

pub(crate) async fn test(
    args: PolicyTestArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let given = parse(&args.arguments)?;
    let servers = context.load_servers()?;
    let entry = find_server(&servers, &context.console, |servers| {
        server_of_tool(servers, &args.tool)
    })?;
    let given = match given {
        ArgumentInput::Stdin => ArgumentInput::Object(signals.until_signal(read_stdin()).await?),
        given => given,
    };
    let known = match remembered(&args.tool, entry, context) {
        Some(known) => known,
        None => ask_server(&args.tool, entry, &servers, context, signals).await?,
    };
    let schema = known.schema.as_ref().map(ToolSchema::parse);
    let arguments = coerce_arguments(given, &schema.unwrap_or_default())?;
    let answer = decide(known, arguments, entry, &servers, context);
    context.console.print(&render(&answer, &context.console))?;
    Ok(Exit::Ok)
}

/// The tool as its server listed it the last time.
fn remembered(name: &str, entry: &ServerEntry, context: &Context) -> Option<Known> {
    let tools = context.cached_tools(entry);
    let id = |tool: &Tool| ToolId::new(entry.name().clone(), tool.name.as_str());
    let is_named = |tool: &&Tool| {
        let id = id(tool);
        naming::wire_name(&id.server, &id.tool).as_str() == name
    };
    let tool = tools.iter().find(is_named)?;
    Some(Known {
        tool: id(tool),
        annotations: tool.annotations.clone(),
        schema: Some(tool.input_schema.clone()),
        note: None,
    })
}

async fn ask_server(
    name: &str,
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
    signals: &mut Signals,
) -> Result<Known, Failure> {
    if let Err(failure) = require_launchable(entry, servers, context) {
        return Ok(by_name(name, entry, &failure));
    }
    let host = context.one_shot_host(servers, vec![entry.clone()]);
    run_with_host(host, signals, context, async |host| {
        start_servers(host, &context.console, LazyServers::Unlisted).await;
        let tool = find_tool(host, entry, name).await?;
        Ok(Known {
            tool: tool.id.clone(),
            annotations: tool.definition.annotations.clone(),
            schema: Some(tool.definition.input_schema.clone()),
            note: None,
        })
    })
    .await
}

/// All that can be said of a tool whose server may not be started.
fn by_name(name: &str, entry: &ServerEntry, why: &Failure) -> Known {
    let part = naming::split_wire_name(name).map_or(name, |(_, tool)| tool);
    Known {
        tool: ToolId::new(entry.name().clone(), part),
        annotations: ToolAnnotations::default(),
        schema: None,
        note: Some(format!(
            "judged by its name alone, as a tool without hints: {}",
            why.parts().message
        )),
    }
}

fn decide(
    known: Known,
    arguments: Map<String, Value>,
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
) -> Answer {
    let wire = naming::wire_name(&known.tool.server, &known.tool.tool);
    let subject = Subject {
        tool: &known.tool,
        wire: &wire,
        annotations: &known.annotations,
        trusts_annotations: match entry.admit(&servers.trust) {
            Admission::Launch(spec) => spec.config().trust_annotations,
            _ => false,
        },
        arguments: Some(&arguments),
    };
    let policy = context.policy(servers);
    let decision = policy.decide(&subject);
    let fitting = policy.fitting(&subject);
    let mut notes: Vec<String> = known.note.into_iter().collect();
    let left_out = servers.ignored_project_allows(entry);
    if left_out > 0 {
        let rules = count(left_out, "allow rule");
        let why = match entry.scope() {
            Scope::Project => "the server is not approved",
            _ => "the server is not the project's own",
        };
        notes.push(format!(
            "left out of the project, because {why}: {rules} of its settings"
        ));
    }
    Answer {
        why: why(&decision).to_owned(),
        action: decision.action,
        rule: match decision.reason {
            Reason::Rule(rule) => Some(rule),
            _ => None,
        },
        fitting,
        notes,
        server: known.tool.server.to_string(),
        tool: wire,
        arguments,
    }
}

fn why(decision: &Decision) -> &'static str {
    match (&decision.reason, decision.action) {
        (Reason::Rule(_), Action::Deny) => "a deny wins over everything",
        (Reason::Rule(_), _) => "it is the first rule that fits, and no deny does",
        _ => "no rule fits, and MCP tools are asked about then",
    }
}

fn render(answer: &Answer, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(answer);
    }
    let style = console.style;
    let (symbol, word, paint) = match answer.action {
        Action::Allow => ("✓", "allowed", Paint::Green),
        Action::Ask => ("?", "asked about", Paint::Yellow),
        Action::Deny => ("✗", "denied", Paint::Red),
    };
    let arguments = serde_json::to_string(&answer.arguments).unwrap_or_default();
    let mut page = format!(
        "{}  {}\n{}: {}\n",
        style.paint(Paint::Bold, answer.tool.as_str()),
        for_terminal(&arguments),
        style.paint(paint, &format!("{symbol} {word}")),
        answer.why,
    );
    if !answer.fitting.is_empty() {
        page.push_str("\nrules that fit, in reading order:\n");
        page.push_str(&table(answer).render(console.columns, style));
    }
    if !page.ends_with('\n') {
        page.push('\n');
    }
    for note in &answer.notes {
        page.push_str(&style.paint(Paint::Dim, &format!("note: {}", for_terminal(note))));
        page.push('\n');
    }
    page
}

fn table(answer: &Answer) -> Table {
    let mut table = Table::new(2, Overflow::Truncate).indent(2);
    for rule in &answer.fitting {
        let decides = answer.rule.as_ref().is_some_and(|it| Arc::ptr_eq(it, rule));
        let (mark, paint) = if decides {
            ("→", Paint::Bold)
        } else {
            ("", Paint::Plain)
        };
        let place = match &rule.origin {
            Some(origin) => format!("{}, {origin}", rule.scope),
            None => rule.scope.to_string(),
        };
        table.row(vec![
            Cell::new(mark),
            Cell::new(rule.action.to_string()).paint(paint),
            Cell::new(for_terminal(&wording(rule))).paint(paint),
            Cell::new(place).paint(Paint::Dim),
        ]);
    }
    table
}

/// What a rule is about, without where it stands.
fn wording(rule: &WrittenRule) -> String {
    if let Some(reason) = &rule.because {
        return reason.clone();
    }
    let mut words = rule.tool.clone();
    for pattern in &rule.patterns {
        words.extend([" where ", pattern]);
    }
    if let Some(hint) = rule.hint {
        let hint = serde_json::to_value(hint).unwrap_or_default();
        words.extend([" with hint ", hint.as_str().unwrap_or_default()]);
    }
    words
}
