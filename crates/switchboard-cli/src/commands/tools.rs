//! `tools [PATTERN]`: lists the tools of all servers.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use switchboard::catalog::CatalogTool;
use switchboard::naming;
use switchboard::status::{ConnectionStatus, ServerDetails, ServerStatus};

use super::find::NO_SERVERS_HINT;
use super::list::has_failed;
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
    let console = &context.console;
    let mut entries = servers.loaded.config.servers.clone();
    if let Some(pattern) = &args.pattern {
        entries.retain(|entry| {
            may_match_tools_of(pattern, &naming::server_part(entry.name()))
                || may_match_tools_of(pattern, entry.name().as_str())
        });
    }
    let host = context.one_shot_host(&servers, entries.clone());
    run_with_host(host, signals, context, async |host| {
        start_servers(host, console, LazyServers::Unlisted).await;
        let mut tools = host.tools();
        let all = tools.len();
        tools.retain(|tool| filter.as_ref().is_none_or(|filter| filter.matches(tool)));
        let details = entries.iter();
        let details = details.filter_map(|entry| host.server_details(entry.name().as_str()).ok());
        let details: Vec<_> = details.collect();
        console.print(&render(&tools, &details, console))?;
        report_failures(&details, console);
        report_no_match(args.pattern.as_deref(), tools.len(), all, &servers, console);
        Ok(exit_code(&details))
    })
    .await
}

/// Whether the pattern can match a tool whose wire name has this server part. A pattern that starts
/// with `mcp__` names a server, or the start of the names of several servers.
fn may_match_tools_of(pattern: &str, server_part: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    let literal = pattern.split(['*', '?', '[', '{', '\\']).next();
    let Some(named) = literal.and_then(|literal| literal.strip_prefix(naming::PREFIX)) else {
        return true;
    };
    let prefix = format!("{server_part}{}", naming::SEPARATOR).to_ascii_lowercase();
    prefix.starts_with(named) || named.starts_with(&prefix)
}

/// Fails if the tools of a server could not be listed, or if servers are enabled and none of them
/// is connected or has a cached listing.
fn exit_code(servers: &[ServerDetails]) -> Exit {
    let servers = servers.iter().map(|server| &server.status);
    if servers.clone().any(has_failed) {
        return Exit::Unavailable;
    }
    if (servers.clone()).any(|server| server.status == ConnectionStatus::NeedsAuth) {
        return Exit::LoginNeeded;
    }
    let mut enabled = servers
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
fn report_failures(servers: &[ServerDetails], console: &Console) {
    for server in servers {
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
}

/// Says why the list is empty if no server is configured or no tool matches the pattern.
fn report_no_match(
    pattern: Option<&str>,
    matching: usize,
    all: usize,
    servers: &LoadedServers,
    console: &Console,
) {
    if servers.loaded.config.servers.is_empty() {
        console.note(NO_SERVERS_HINT);
        return;
    }
    if let Some(pattern) = pattern.filter(|_| matching == 0) {
        console.note(&match all {
            0 => format!("no tool matches {pattern:?}"),
            all => format!("no tool matches {pattern:?} ({all} tools checked)"),
        });
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
        let matches = |name: &str| match self {
            Self::Substring(text) => name.to_ascii_lowercase().contains(text),
            Self::Glob(glob) => glob.is_match(name),
        };
        // The wire name of a server with a long name does not contain that name.
        let full_name = || format!("mcp__{}__{}", tool.id.server, tool.id.tool);
        matches(tool.wire_name.as_str()) || matches(&full_name())
    }
}

fn render(tools: &[Arc<CatalogTool>], servers: &[ServerDetails], console: &Console) -> String {
    if console.is_json() {
        let tools = tools.iter().map(|tool| json::ToolJson::from(&**tool));
        let notes = servers.iter().flat_map(|server| {
            let notes = server.notes.iter();
            notes.map(|note| (&server.status.name, note.as_str()))
        });
        return json::listing(&tools.collect::<Vec<_>>(), notes);
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

    #[test]
    fn pattern_that_names_a_server_selects_it() {
        let selected = |pattern| {
            let parts = ["memory", "mem", "time"];
            parts.map(|part| may_match_tools_of(pattern, part))
        };
        assert_eq!(selected("mcp__memory__*"), [true, false, false]);
        assert_eq!(selected("MCP__Memory__read"), [true, false, false]);
        assert_eq!(selected("mcp__mem__*"), [false, true, false]);
        assert_eq!(selected("mcp__mem*"), [true, true, false]);
        assert_eq!(selected("mcp__{time,mem}__*"), [true, true, true]);
        assert_eq!(selected("mcp__*__read"), [true, true, true]);
        assert_eq!(selected("*__read"), [true, true, true]);
        assert_eq!(selected("memory"), [true, true, true]);
        assert_eq!(selected("mcp__none__x"), [false, false, false]);
    }
}
