//! Reads the name of a tool from the command line.
//!
//! A tool can be named `mcp__server__tool`, `SERVER.TOOL` or with two words `SERVER TOOL`, where
//! SERVER is the configured name. In `mcp__server__tool` the server part may be the one that models
//! see, the configured name, or the part that earlier releases derived from a long name.

use std::sync::Arc;

use switchboard::catalog::{Catalog, CatalogTool};
use switchboard::naming;
use switchboard_config::{ServerEntry, nearest};

use super::find::NO_SERVERS_HINT;
use crate::context::LoadedServers;
use crate::failure::{Failure, Kind};
use switchboard::content::quote_for_shell;

/// A tool of a configured server, as named on the command line. The server may not have it.
#[derive(Debug)]
pub(super) struct NamedTool<'a> {
    pub(super) entry: &'a ServerEntry,
    /// The name of the tool for models, if the name after the server is the tool's own name or the
    /// tool part of that name.
    pub(super) wire_name: String,
    /// The name after the server: the tool's own name, or the tool part of the wire name.
    tool: String,
}

impl<'a> NamedTool<'a> {
    fn new(entry: &'a ServerEntry, tool: &str) -> Self {
        let part = naming::server_part(entry.name());
        let encoded = naming::tool_part(entry.name(), &tool.into());
        Self {
            entry,
            wire_name: format!("mcp__{part}__{encoded}"),
            tool: tool.to_owned(),
        }
    }

    /// A tool of this server. `name` is the tool's own name or its name for models.
    pub(super) fn of_server(entry: &'a ServerEntry, name: &str) -> Self {
        let own_part = naming::server_part(entry.name());
        let part = naming::split_wire_name(name).filter(|(part, _)| *part == own_part);
        Self::new(entry, part.map_or(name, |(_, tool)| tool))
    }

    /// Finds the tool in the catalog: by its own name, or by its name for models.
    pub(super) fn find<'c>(&self, catalog: &'c Catalog) -> Option<&'c Arc<CatalogTool>>
    where
        'a: 'c,
    {
        let mut tools = catalog.tools_of(self.entry.name());
        let own = tools.find(|tool| tool.id.tool.as_str() == self.tool);
        let by_wire_name = || {
            let part = naming::server_part(self.entry.name());
            let found = catalog.get(&format!("mcp__{part}__{}", self.tool))?;
            (found.id.server == *self.entry.name()).then_some(found)
        };
        own.or_else(by_wire_name)
    }

    /// Whether the server's own name of a tool is the one that was typed.
    pub(super) fn is_named(&self, own_name: &str) -> bool {
        let id = own_name.into();
        own_name == self.tool || naming::tool_part(self.entry.name(), &id) == self.tool
    }

    /// The name after the server, as typed.
    pub(super) fn tool(&self) -> &str {
        &self.tool
    }
}

/// Reads a tool from `word` and, for `SERVER TOOL`, from the first of `more`. Returns the words that
/// follow the tool.
pub(super) fn read_tool<'a, 'w>(
    servers: &'a LoadedServers,
    word: &str,
    more: &'w [String],
) -> Result<(NamedTool<'a>, &'w [String]), Failure> {
    if naming::split_wire_name(word).is_some() {
        return Ok((read_wire_name(servers, word)?, more));
    }
    let entries = &servers.loaded.config.servers;
    if let Some(entry) = entries.iter().find(|entry| entry.name().as_str() == word) {
        return match more.split_first() {
            Some((tool, rest)) if is_tool_word(tool) => Ok((NamedTool::new(entry, tool), rest)),
            _ => Err(missing_tool(entry)),
        };
    }
    let dots = word.char_indices().filter(|(_, letter)| *letter == '.');
    let mut split = dots.filter_map(|(at, _)| {
        let (server, tool) = (word.get(..at)?, word.get(at + 1..)?);
        let entry = entries
            .iter()
            .find(|entry| entry.name().as_str() == server)?;
        (!tool.is_empty()).then(|| NamedTool::new(entry, tool))
    });
    // The longest server name wins.
    split.next_back().map(|tool| (tool, more)).ok_or_else(|| {
        let message =
            format!("{word:?} is not a tool name (expected mcp__server__tool or SERVER.TOOL)");
        Failure::new(Kind::UnknownTool, message)
            .hint(format!("switchboard tools {}", quote_for_shell(word)))
    })
}

/// Whether a word after the name of a server can be the name of a tool, and not an argument.
fn is_tool_word(word: &str) -> bool {
    word != "-" && !word.contains('=') && !word.trim_start().starts_with('{')
}

fn missing_tool(entry: &ServerEntry) -> Failure {
    let message = format!("missing the name of a tool of server {}", entry.name());
    let part = naming::server_part(entry.name());
    Failure::new(Kind::UnknownTool, message).hint(format!("switchboard tools mcp__{part}__"))
}

/// Finds the server of `mcp__server__tool`.
fn read_wire_name<'a>(servers: &'a LoadedServers, name: &str) -> Result<NamedTool<'a>, Failure> {
    let entries = &servers.loaded.config.servers;
    let (part, rest) = naming::split_wire_name(name).unwrap_or((name, ""));
    let named = |tool: &str, entry| NamedTool::new(entry, tool);
    let by_part = |matches: &dyn Fn(&ServerEntry) -> bool| {
        let entry = entries.iter().find(|entry| matches(entry))?;
        Some(named(rest, entry))
    };
    by_part(&|entry| naming::server_part(entry.name()) == part)
        .or_else(|| {
            // A configured name may contain `__`. The longest one wins.
            let full = entries.iter().filter_map(|entry| {
                let after = name.strip_prefix(naming::PREFIX)?;
                let after = after.strip_prefix(entry.name().as_str())?;
                let tool = after.strip_prefix(naming::SEPARATOR)?;
                (!tool.is_empty()).then_some((entry, tool))
            });
            let longest = full.max_by_key(|(entry, _)| entry.name().as_str().len());
            longest.map(|(entry, tool)| named(tool, entry))
        })
        .or_else(|| {
            by_part(&|entry| naming::former_server_part(entry.name()).as_deref() == Some(part))
        })
        .ok_or_else(|| unknown_server(entries, name, part, rest))
}

fn unknown_server(entries: &[ServerEntry], name: &str, part: &str, rest: &str) -> Failure {
    let parts: Vec<_> = entries
        .iter()
        .map(|entry| naming::server_part(entry.name()))
        .collect();
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    let failure = Failure::new(
        Kind::UnknownServer,
        format!("unknown tool {name}: no server named {part:?}"),
    );
    // The user may have typed the server part of the wire names without the hash suffix.
    let is_candidate =
        |server_part: &&&str| (server_part.rsplit_once('_')).is_some_and(|(stem, _)| stem == part);
    let candidate = parts.iter().find(is_candidate).copied();
    match candidate.or_else(|| nearest(part, &parts)) {
        Some(nearest) => {
            let nearest = quote_for_shell(&format!("mcp__{nearest}__{rest}"));
            failure.hint(format!("did you mean {nearest}?"))
        }
        None if entries.is_empty() => failure.hint(NO_SERVERS_HINT),
        None => failure.hint("run `switchboard tools` to list tools"),
    }
}
