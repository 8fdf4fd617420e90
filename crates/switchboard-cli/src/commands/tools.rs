//! `tools [PATTERN]`: what can be called.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use switchboard::status::{ConnectionStatus, ServerStatus};
use switchboard::{CatalogTool, Host};

use super::run_host::{LazyServers, run_with_host, start_servers};
use crate::args::ToolsArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, json, text};
use crate::signals::Signals;

/// A description with less room than this goes below the name.
const LEAST_DESCRIPTION: usize = 28;

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
        tools.retain(|tool| filter.as_ref().is_none_or(|filter| filter.fits(tool)));
        console.print(&render(&tools, console))?;
        tell_failures(host, &servers, console);
        if tools.is_empty() && all > 0 {
            console.note(&format!("none of {all} tools fits the pattern"));
        }
        Ok(exit(host))
    })
    .await
}

/// Fine as long as there is a server to have tools of, or none was wanted.
fn exit(host: &Host) -> Exit {
    let servers = host.status();
    let mut wanted = servers
        .iter()
        .filter(|server| server.status != ConnectionStatus::Disabled)
        .peekable();
    let is_there = |server: &ServerStatus| {
        server.status == ConnectionStatus::Connected || !server.tools.is_empty()
    };
    if wanted.peek().is_none() || wanted.any(is_there) {
        Exit::Ok
    } else {
        Exit::Unavailable
    }
}

/// What is missing from the list, a line each.
fn tell_failures(host: &Host, servers: &LoadedServers, console: &Console) {
    let entries = &servers.loaded.config.servers;
    for server in entries
        .iter()
        .filter_map(|entry| host.server_details(entry.name().as_str()).ok())
    {
        let status = &server.status;
        let reason = status.error.as_deref().or(status.detail.as_deref());
        let reason = text::one_line(reason.unwrap_or("no reason is known"));
        let name = &status.name;
        match status.status {
            ConnectionStatus::Disabled => {}
            // It sleeps, and what it offers is known.
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
        console.note("no servers are configured: switchboard list says what to do");
    }
}

/// Which tools are wanted.
enum Filter {
    /// Names that hold this, whatever the case.
    Part(String),
    Glob(GlobMatcher),
}

impl Filter {
    fn parse(pattern: &str) -> Result<Self, Failure> {
        if !pattern.contains(['*', '?', '[']) {
            return Ok(Self::Part(pattern.to_ascii_lowercase()));
        }
        let glob = GlobBuilder::new(pattern).case_insensitive(true).build();
        let glob =
            glob.map_err(|error| Failure::usage(format!("{pattern:?} is no pattern: {error}")))?;
        Ok(Self::Glob(glob.compile_matcher()))
    }

    fn fits(&self, tool: &CatalogTool) -> bool {
        let name = tool.wire_name.as_str();
        match self {
            Self::Part(part) => name.to_ascii_lowercase().contains(part),
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
        .is_some_and(|columns| columns < widest + 2 + LEAST_DESCRIPTION);
    let mut table = Table::new(1, Overflow::Truncate);
    for tool in tools {
        let name = tool.wire_name.as_str();
        let description =
            text::first_line(tool.definition.description.as_deref().unwrap_or_default());
        if is_narrow {
            // Whole, whatever the room: it is there to be typed.
            table.text(console.style.paint(Paint::Bold, name));
            let room = console.columns.unwrap_or_default().saturating_sub(4);
            table.text(match description.as_str() {
                "" => String::new(),
                description => format!("    {}", text::truncate(description, room)),
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
    fn a_pattern_is_a_glob_only_if_it_looks_like_one() {
        assert!(matches!(Filter::parse("Echo"), Ok(Filter::Part(part)) if part == "echo"));
        assert!(matches!(Filter::parse("mcp__*__echo"), Ok(Filter::Glob(_))));
        assert!(Filter::parse("[").is_err());
    }
}
