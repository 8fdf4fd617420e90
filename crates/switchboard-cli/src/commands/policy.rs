//! `policy test TOOL [ARGS]`: prints which permission rule decides on a call. Never calls the tool.
//!
//! Uses the cached tool listing of the server. If the listing does not have the tool, the server is
//! started. If the server may not be started, the rules are matched without the tool's annotations
//! and schema.

pub(crate) mod rules;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use switchboard::content::for_terminal;
use switchboard::id::{ToolId, WireName};
use switchboard::mcp::{Json, ToolAnnotations};
use switchboard::naming;
use switchboard::permission::{Action, CallFacts, Decision, Reason, RuleDefinition};
use switchboard::schema::{CompiledSchema, Validation, Violation};
use switchboard_config::{LaunchDecision, Scope, ServerEntry};

use super::call::{coerce_arguments, read_stdin};
use super::find::{find_named_tool, find_tool, require_launchable};
use super::run_host::{LazyServers, run_with_host, start_servers};
use super::tool_name::NamedTool;
use crate::args::PolicyTestArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, format_count, json};
use crate::signals::Signals;
use crate::tool_arguments::{ArgumentInput, parse};
use crate::tool_schema::ToolSchema;

/// Output of `policy test --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicyReport {
    tool: WireName,
    server: String,
    arguments: Map<String, Value>,
    action: Action,
    /// A sentence that explains why `action` was decided.
    why: String,
    /// The rule that decided. `None` if no rule did.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Arc<RuleDefinition>>,
    /// All rules that match the call, in the order in which they are evaluated.
    matching_rules: Vec<Arc<RuleDefinition>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// What is known about the tool of the call.
struct ToolFacts {
    tool: ToolId,
    annotations: ToolAnnotations,
    /// The tool's input schema. `None` if the server could not be asked and only the tool's name is
    /// known.
    schema: Option<Json>,
    note: Option<String>,
}

pub(crate) async fn test(
    args: PolicyTestArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let (named, words) = find_named_tool(&servers, &context.console, &args.tool, &args.arguments)?;
    let entry = named.entry;
    let input = parse(words)?;
    let input = match input {
        ArgumentInput::Stdin => ArgumentInput::Object(signals.until_signal(read_stdin()).await?),
        input => input,
    };
    let facts = match cached_tool(&named, context) {
        Some(facts) => facts,
        None => ask_server(&named, &servers, context, signals).await?,
    };
    let schema = facts.schema.as_ref().map(ToolSchema::parse);
    let arguments = coerce_arguments(input, &schema.unwrap_or_default())?;
    let violations = facts
        .schema
        .clone()
        .map(|schema| argument_violations(schema, &arguments));
    let mut report = decide(facts, arguments, entry, &servers, context);
    let violations = violations.unwrap_or_default().into_iter();
    let notes = violations.map(|violation| format!("a call would be rejected: {violation}"));
    report.notes.extend(notes);
    context.console.print(&render(&report, &context.console))?;
    Ok(Exit::Ok)
}

/// Returns how the arguments violate the schema.
fn argument_violations(schema: Json, arguments: &Map<String, Value>) -> Vec<Violation> {
    let arguments = Value::Object(arguments.clone());
    match CompiledSchema::new(schema).validate(&arguments) {
        Validation::Invalid(violations) => violations,
        _ => Vec::new(),
    }
}

/// Returns the tool from the cached listing of the server, or `None` if the listing does not have
/// the tool.
fn cached_tool(named: &NamedTool<'_>, context: &Context) -> Option<ToolFacts> {
    let tools = context.cached_tools(named.entry);
    let tool = tools.iter().find(|tool| named.is_named(&tool.name))?;
    Some(ToolFacts {
        tool: ToolId::new(named.entry.name().clone(), tool.name.as_str()),
        annotations: tool.annotations.clone(),
        schema: Some(tool.input_schema.clone()),
        note: None,
    })
}

async fn ask_server(
    named: &NamedTool<'_>,
    servers: &LoadedServers,
    context: &Context,
    signals: &mut Signals,
) -> Result<ToolFacts, Failure> {
    let entry = named.entry;
    if let Err(failure) = require_launchable(entry, servers, context) {
        return Ok(facts_from_name(named, &failure));
    }
    let host = context.one_shot_host(servers, vec![entry.clone()]);
    run_with_host(host, signals, context, async |host| {
        start_servers(host, &context.console, LazyServers::Unlisted).await;
        let tool = find_tool(host, named).await?;
        Ok(ToolFacts {
            tool: tool.id.clone(),
            annotations: tool.definition.annotations.clone(),
            schema: Some(tool.definition.input_schema.clone()),
            note: None,
        })
    })
    .await
}

/// Returns the facts of a tool whose server may not be started: its name, and no annotations.
fn facts_from_name(named: &NamedTool<'_>, why: &Failure) -> ToolFacts {
    ToolFacts {
        tool: ToolId::new(named.entry.name().clone(), named.tool()),
        annotations: ToolAnnotations::default(),
        schema: None,
        note: Some(format!(
            "only the name was matched, as for a tool without hints: {}",
            why.parts().message
        )),
    }
}

fn decide(
    facts: ToolFacts,
    arguments: Map<String, Value>,
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
) -> PolicyReport {
    let wire = naming::wire_name(&facts.tool.server, &facts.tool.tool);
    let subject = CallFacts {
        tool: &facts.tool,
        wire_name: &wire,
        annotations: &facts.annotations,
        trust_annotations: match entry.decide_launch(&servers.trust) {
            LaunchDecision::Launch(spec) => spec.config().trust_annotations,
            _ => false,
        },
        arguments: Some(&arguments),
    };
    let policy = context.policy(servers);
    let decision = policy.decide(&subject);
    let matching_rules = policy.matching_rules(&subject);
    let mut notes: Vec<String> = facts.note.into_iter().collect();
    let ignored = servers.ignored_project_allows(entry);
    if ignored > 0 {
        let rules = format_count(ignored, "allow rule");
        let why = match entry.scope() {
            Scope::Project => "the server is not approved",
            _ => "the server is not from the project's .mcp.json",
        };
        notes.push(format!("ignored {rules} of the project settings: {why}"));
    }
    PolicyReport {
        why: explain(&decision).to_owned(),
        action: decision.action,
        rule: match decision.reason {
            Reason::Rule(rule) => Some(rule),
            _ => None,
        },
        matching_rules,
        notes,
        server: facts.tool.server.to_string(),
        tool: wire,
        arguments,
    }
}

fn explain(decision: &Decision) -> &'static str {
    match (&decision.reason, decision.action) {
        (Reason::Rule(_), Action::Deny) => "deny rules override all others",
        (Reason::Rule(_), _) => "first matching rule, and no deny rule matches",
        _ => "no rule matches; the default is to ask",
    }
}

fn render(report: &PolicyReport, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(report);
    }
    let style = console.style;
    let (symbol, word, paint) = match report.action {
        Action::Allow => ("✓", "allowed", Paint::Green),
        Action::Ask => ("?", "ask", Paint::Yellow),
        Action::Deny => ("✗", "denied", Paint::Red),
    };
    let arguments = serde_json::to_string(&report.arguments).unwrap_or_default();
    let mut page = format!(
        "{}  {}\n{}: {}\n",
        style.paint(Paint::Bold, report.tool.as_str()),
        for_terminal(&arguments),
        style.paint(paint, &format!("{symbol} {word}")),
        report.why,
    );
    if !report.matching_rules.is_empty() {
        page.push_str("\nmatching rules, in order of evaluation:\n");
        page.push_str(&render_rules(report).render(console.columns, style));
    }
    if !page.ends_with('\n') {
        page.push('\n');
    }
    for note in &report.notes {
        page.push_str(&style.paint(Paint::Dim, &format!("note: {}", for_terminal(note))));
        page.push('\n');
    }
    page
}

fn render_rules(report: &PolicyReport) -> Table {
    // The rule is never truncated. The place shrinks and is dropped first.
    let mut table = Table::new(3, Overflow::Truncate).indent(2).droppable(&[3]);
    for rule in &report.matching_rules {
        let decides = (report.rule.as_ref()).is_some_and(|deciding| Arc::ptr_eq(deciding, rule));
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
            Cell::new(for_terminal(&render_rule(rule))).paint(paint),
            Cell::new(place).paint(Paint::Dim),
        ]);
    }
    table
}

/// Renders the reason of the rule if it has one, otherwise the condition.
fn render_rule(rule: &RuleDefinition) -> String {
    if let Some(reason) = &rule.reason {
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
