//! `tools [PATTERN]`: lists the tools of all servers.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use switchboard::Host;
use switchboard::catalog::CatalogTool;
use switchboard::status::{ConnectionStatus, ServerStatus};

use super::find::NO_SERVERS_HINT;
use super::run_host::{LazyServers, run_with_host, start_servers};
use crate::args::ToolsArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, json, text};
use crate::signals::Signals;

/// If fewer columns than this remain next to the names, descriptions are printed below the names.
const MIN_DESCRIPTION_COLUMNS: usize = 28;

pub(crate) async fn run(
    args: &ToolsArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let filter = args.pattern.as_deref().map(Filter::parse).transpose()?;
    let servers = context.load_servers()?;
    servers.diagnose(&context.console);
    let entries = servers.loaded.config.servers.clone();
    let console = &context.console;
    let host = context.one_shot_host(&servers, entries.clone());
    run_with_host(host, signals, context, async |host| {
        start_servers(host, console, LazyServers::Unlisted).await;
        let mut tools = host.tools();
        let all = tools.len();
        tools.retain(|tool| filter.as_ref().is_none_or(|filter| filter.matches(tool)));
        console.print(&render(&tools, console))?;
        report_failures(host, &servers, console);
        if let Some(pattern) = &args.pattern
            && tools.is_empty()
            && all > 0
        {
            console.note(&format!(
                "no tool matches {pattern:?} ({all} tools checked)"
            ));
        }
        Ok(exit_code(host))
    })
    .await
}

/// Succeeds if some server is connected or has a cached listing, or if no server is enabled.
fn exit_code(host: &Host) -> Exit {
    let servers = host.status();
    let mut enabled = servers
        .iter()
        .filter(|server| server.status != ConnectionStatus::Disabled)
        .peekable();
    let has_listing = |server: &ServerStatus| {
        server.status == ConnectionStatus::Connected || !server.tools.is_empty()
    };
    if enabled.peek().is_none() || enabled.any(has_listing) {
        Exit::Ok
    } else {
        Exit::Unavailable
    }
}

/// Prints a line for each server whose tools are missing from the list, and the notes of all
/// servers.
fn report_failures(host: &Host, servers: &LoadedServers, console: &Console) {
    let entries = &servers.loaded.config.servers;
    for server in entries
        .iter()
        .filter_map(|entry| host.server_details(entry.name().as_str()).ok())
    {
        let status = &server.status;
        let reason = status.error.as_deref().or(status.detail.as_deref());
        let reason = text::one_line(reason.unwrap_or("unknown error"));
        let name = &status.name;
        match status.status {
            ConnectionStatus::Disabled => {}
            // A lazy server whose cached listing is in the printed list.
            ConnectionStatus::Pending if !status.tools.is_empty() => {}
            ConnectionStatus::Connected if status.error.is_none() => {}
            ConnectionStatus::Connected => console.note(&format!("server {name}: {reason}")),
            ConnectionStatus::Failed => console.note(&format!("server {name} failed: {reason}")),
            state => console.note(&format!("server {name} is {state}: {reason}")),
        }
        for note in &server.notes {
            console.note(&format!("server {name}: {}", text::one_line(note)));
        }
    }
    if entries.is_empty() {
        console.note(NO_SERVERS_HINT);
    }
}

enum Filter {
    /// Matches tool names that contain this text, ignoring case. The text is stored in lower case.
    Substring(String),
    Glob(GlobMatcher),
}

impl Filter {
    fn parse(pattern: &str) -> Result<Self, Failure> {
        if !pattern.contains(['*', '?', '[']) {
            return Ok(Self::Substring(pattern.to_ascii_lowercase()));
        }
        let glob = GlobBuilder::new(pattern).case_insensitive(true).build();
        let glob =
            glob.map_err(|error| Failure::usage(format!("invalid pattern {pattern:?}: {error}")))?;
        Ok(Self::Glob(glob.compile_matcher()))
    }

    fn matches(&self, tool: &CatalogTool) -> bool {
        let name = tool.wire_name.as_str();
        match self {
            Self::Substring(text) => name.to_ascii_lowercase().contains(text),
            Self::Glob(glob) => glob.is_match(name),
        }
    }
}

fn render(tools: &[Arc<CatalogTool>], console: &Console) -> String {
    if console.is_json() {
        let tools: Vec<json::ToolJson<'_>> = tools
            .iter()
            .map(|tool| json::ToolJson::from(&**tool))
            .collect();
        return json::pretty(&tools);
    }
    let same_server = |a: &Arc<CatalogTool>, b: &Arc<CatalogTool>| a.id.server == b.id.server;
    let groups = tools
        .chunk_by(same_server)
        .map(|group| render_group(group, console));
    groups.collect::<Vec<_>>().join("\n")
}

fn render_group(tools: &[Arc<CatalogTool>], console: &Console) -> String {
    let names = tools
        .iter()
        .map(|tool| text::width(tool.wire_name.as_str()));
    let widest = names.max().unwrap_or_default();
    let is_narrow = console
        .columns
        .is_some_and(|columns| columns < widest + 2 + MIN_DESCRIPTION_COLUMNS);
    let mut table = Table::new(1, Overflow::Truncate);
    for tool in tools {
        let name = tool.wire_name.as_str();
        let description =
            text::first_line(tool.definition.description.as_deref().unwrap_or_default());
        if is_narrow {
            // The name is never truncated, because the user has to type it.
            table.text(console.style.paint(Paint::Bold, name));
            let description_columns = console.columns.unwrap_or_default().saturating_sub(4);
            table.text(match description.as_str() {
                "" => String::new(),
                description => format!("    {}", text::truncate(description, description_columns)),
            });
        } else {
            let name = Cell::new(name).paint(Paint::Bold);
            table.row(vec![name, Cell::new(description)]);
        }
    }
    table.render(console.columns, console.style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_without_wildcards_is_substring() {
        assert!(matches!(Filter::parse("Echo"), Ok(Filter::Substring(text)) if text == "echo"));
        assert!(matches!(Filter::parse("mcp__*__echo"), Ok(Filter::Glob(_))));
        assert!(Filter::parse("[").is_err());
    }
}
