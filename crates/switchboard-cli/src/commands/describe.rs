//! `describe TOOL`: one tool and how to call it.

use switchboard::CatalogTool;
use switchboard::content::for_terminal;

use super::{check_usable, choose, find_tool, on_host, server_of_tool, settle_tools};
use crate::args::DescribeArgs;
use crate::ask::hints;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::table::{Cell, GiveWay, Table};
use crate::render::{Screen, json, text};
use crate::schema::{Parameter, Schema};
use crate::signals::Signals;

/// Below this, explanations stand below the names and not beside them.
const NARROW: usize = 60;

pub(crate) async fn run(
    args: &DescribeArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let entry = choose(&servers, &context.screen, |servers| {
        server_of_tool(servers, &args.tool)
    })?;
    check_usable(entry, &servers, context)?;
    let entries = vec![entry.clone()];
    let host = context.host_of(&servers, entries.clone());
    on_host(host, signals, context, async |host| {
        settle_tools(host, &context.screen).await;
        let tool = find_tool(host, entry, &args.tool).await?;
        context.screen.print(&render(&tool, &context.screen))?;
        Ok(Exit::Ok)
    })
    .await
}

fn render(tool: &CatalogTool, screen: &Screen) -> String {
    if screen.is_json() {
        return json::pretty(&json::Tool::from(tool));
    }
    let style = screen.style;
    let schema = Schema::read(&tool.definition.input_schema);
    let parameters = schema.parameters();
    let description = tool.definition.description.as_deref().unwrap_or_default();
    let sections = [
        format!(
            "{}\n{}",
            style.paint(Paint::Bold, tool.wire_name.as_str()),
            identity(tool, screen).trim_end()
        ),
        text::block(description.trim(), 2, screen.prose_columns()),
        arguments(&parameters, screen),
        format!(
            "{}\n  {}",
            style.paint(Paint::Dim, "Usage"),
            usage(tool, &parameters)
        ),
    ];
    let sections: Vec<_> = sections
        .into_iter()
        .filter(|section| !section.is_empty())
        .collect();
    sections.join("\n\n")
}

fn identity(tool: &CatalogTool, screen: &Screen) -> String {
    let definition = &tool.definition;
    let title = definition
        .title
        .as_ref()
        .or(definition.annotations.title.as_ref());
    let claims = hints(&definition.annotations).join(", ");
    let fields = [
        ("server", tool.id.server.as_str()),
        ("tool", tool.id.tool.as_str()),
        ("title", title.map(String::as_str).unwrap_or_default()),
        ("claims", &claims),
    ];
    let mut table = Table::new(1, GiveWay::Cut).indent(2);
    for (label, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
        table.row(vec![
            Cell::new(label).paint(Paint::Dim),
            Cell::new(for_terminal(value)),
        ]);
    }
    table.render(screen.columns, screen.style)
}

fn arguments(parameters: &[Parameter<'_>], screen: &Screen) -> String {
    let heading = screen.style.paint(Paint::Dim, "Arguments");
    if parameters.is_empty() {
        return format!("{heading}\n  none");
    }
    let is_narrow = screen.columns.is_some_and(|columns| columns < NARROW);
    let mut table = Table::new(3, GiveWay::Wrap).indent(2);
    for parameter in parameters {
        let required = if parameter.required { "required" } else { "" };
        let mut cells = vec![
            Cell::new(for_terminal(parameter.name)).paint(Paint::Bold),
            Cell::new(for_terminal(&parameter.kind)).paint(Paint::Cyan),
            Cell::new(required).paint(Paint::Yellow),
        ];
        let explanation = explanation(parameter);
        if is_narrow {
            table.row(cells);
            table.text(text::block(&explanation, 6, screen.columns));
        } else {
            cells.push(Cell::new(explanation));
            table.row(cells);
        }
    }
    format!(
        "{heading}\n{}",
        table.render(screen.columns, screen.style).trim_end()
    )
}

fn explanation(parameter: &Parameter<'_>) -> String {
    let description = parameter.description.unwrap_or_default();
    let words: Vec<_> = description.split_whitespace().collect();
    let mut text = words.join(" ");
    if let Some(default) = parameter.default {
        let gap = if text.is_empty() { "" } else { " " };
        text.extend([gap, "(default ", &default.to_string(), ")"]);
    }
    for_terminal(&text).into_owned()
}

/// How to call it: what is required, and the rest in brackets.
fn usage(tool: &CatalogTool, parameters: &[Parameter<'_>]) -> String {
    let argument = |parameter: &Parameter<'_>| {
        let name = for_terminal(parameter.name);
        if parameter.required {
            format!(" {name}=…")
        } else {
            format!(" [{name}=…]")
        }
    };
    let arguments: String = parameters.iter().map(argument).collect();
    format!("switchboard call {}{arguments}", tool.wire_name)
}
