//! `describe TOOL`: prints a tool's description, its arguments and a command to call it.

use switchboard::catalog::CatalogTool;

use super::find::{find_named_tool, find_tool, require_launchable};
use super::run_host::{LazyServers, run_with_host, start_servers};
use crate::args::DescribeArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::permission_prompt::annotation_labels;
use crate::render::server_text::{quote_indented, short_field};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::text::{self, quote_for_shell};
use crate::render::{Console, json};
use crate::signals::Signals;
use crate::tool_schema::{Parameter, ToolSchema};

/// In a terminal with fewer columns, descriptions are printed below the argument names.
const NARROW_COLUMNS: usize = 60;

/// Maximum number of arguments shown, and the maximum columns of the fields that the server
/// declares.
const MAX_PARAMETERS: usize = 200;
const MAX_NAME_COLUMNS: usize = 100;
const MAX_FIELD_COLUMNS: usize = 300;
const MAX_DESCRIPTION_COLUMNS: usize = 2_000;

pub(crate) async fn run(
    args: &DescribeArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let more = args.name.as_slice();
    let (named, _) = find_named_tool(&servers, &context.console, &args.tool, more)?;
    let entry = named.entry;
    require_launchable(entry, &servers, context)?;
    let entries = vec![entry.clone()];
    let host = context.one_shot_host(&servers, entries.clone());
    run_with_host(host, signals, context, async |host| {
        start_servers(host, &context.console, LazyServers::Unlisted).await;
        let tool = find_tool(host, &named).await?;
        host.check_schemas([&tool]).await;
        context.console.print(&render(&tool, &context.console))?;
        Ok(Exit::Ok)
    })
    .await
}

fn render(tool: &CatalogTool, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(&json::ToolJson::from(tool));
    }
    let style = console.style;
    let schema = ToolSchema::parse(&tool.definition.input_schema);
    let parameters = schema.parameters();
    let description = tool.definition.description.as_deref().unwrap_or_default();
    let sections = [
        format!(
            "{}\n{}",
            style.paint(Paint::Bold, tool.wire_name.as_str()),
            render_identity(tool, console).trim_end()
        ),
        quote_indented(description.trim(), 2, console.prose_columns()),
        render_arguments(&parameters, console),
        format!(
            "{}\n  {}",
            style.paint(Paint::Dim, "Usage"),
            render_usage(tool, &parameters)
        ),
        render_notes(tool, console),
    ];
    let sections: Vec<_> = sections
        .into_iter()
        .filter(|section| !section.is_empty())
        .collect();
    sections.join("\n\n")
}

fn render_notes(tool: &CatalogTool, console: &Console) -> String {
    let notes = tool.schema_notes().map(|note| {
        let note = short_field(&format!("note: {note}"), MAX_FIELD_COLUMNS);
        let block = text::wrap_and_indent(&note, 2, console.prose_columns());
        console.style.paint(Paint::Dim, &block)
    });
    notes.collect::<Vec<_>>().join("\n")
}

fn render_identity(tool: &CatalogTool, console: &Console) -> String {
    let definition = &tool.definition;
    let title = definition
        .title
        .as_ref()
        .or(definition.annotations.title.as_ref());
    let hints = annotation_labels(&definition.annotations).join(", ");
    let fields = [
        ("server", tool.id.server.as_str()),
        ("tool", tool.id.tool.as_str()),
        ("title", title.map(String::as_str).unwrap_or_default()),
        ("hints", hints.as_str()),
    ];
    let mut table = Table::new(1, Overflow::Truncate).indent(2);
    for (label, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
        table.row(vec![
            Cell::new(label).paint(Paint::Dim),
            Cell::new(short_field(value, MAX_FIELD_COLUMNS)),
        ]);
    }
    table.render(console.columns, console.style)
}

fn render_arguments(parameters: &[Parameter<'_>], console: &Console) -> String {
    let heading = console.style.paint(Paint::Dim, "Arguments");
    if parameters.is_empty() {
        return format!("{heading}\n  none");
    }
    let is_narrow = (console.columns).is_some_and(|columns| columns < NARROW_COLUMNS);
    let mut table = Table::new(3, Overflow::Wrap).indent(2);
    for parameter in parameters.iter().take(MAX_PARAMETERS) {
        let required = if parameter.required { "required" } else { "" };
        let mut cells = vec![
            Cell::new(short_field(parameter.name, MAX_NAME_COLUMNS)).paint(Paint::Bold),
            Cell::new(short_field(&parameter.kind, MAX_NAME_COLUMNS)).paint(Paint::Cyan),
            Cell::new(required).paint(Paint::Yellow),
        ];
        let explanation = explain_parameter(parameter);
        if is_narrow {
            table.row(cells);
            table.text(text::wrap_and_indent(&explanation, 6, console.columns));
        } else {
            cells.push(Cell::new(explanation));
            table.row(cells);
        }
    }
    if parameters.len() > MAX_PARAMETERS {
        let more = parameters.len() - MAX_PARAMETERS;
        table.text(format!("  {more} more arguments (--json prints all)"));
    }
    format!(
        "{heading}\n{}",
        table.render(console.columns, console.style).trim_end()
    )
}

fn explain_parameter(parameter: &Parameter<'_>) -> String {
    let description = parameter.description.unwrap_or_default();
    let description = short_field(description, MAX_DESCRIPTION_COLUMNS);
    let words: Vec<_> = description.split_whitespace().collect();
    let mut text = words.join(" ");
    if let Some(default) = parameter.default {
        let gap = if text.is_empty() { "" } else { " " };
        let default = short_field(&default.to_string(), MAX_FIELD_COLUMNS);
        text.extend([gap, "(default ", &default, ")"]);
    }
    text
}

/// Renders the command line; optional arguments are in brackets.
fn render_usage(tool: &CatalogTool, parameters: &[Parameter<'_>]) -> String {
    let argument = |parameter: &Parameter<'_>| {
        let name = quote_for_shell(parameter.name);
        if parameter.required {
            format!(" {name}=…")
        } else {
            format!(" [{name}=…]")
        }
    };
    // An argument with a long name cannot be typed, and the table shows that it exists.
    let fits = |parameter: &&Parameter<'_>| parameter.name.len() <= MAX_NAME_COLUMNS;
    let shown = parameters.iter().take(MAX_PARAMETERS).filter(fits);
    let arguments: String = shown.map(argument).collect();
    format!("switchboard call {}{arguments}", tool.wire_name)
}
