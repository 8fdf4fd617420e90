//! Names of servers, tools and arguments that a shell offers as completions.
//!
//! Reads the config and the cached tool listings; starts no server and prints nothing. Invariant: a
//! candidate contains only characters that no shell interprets, because names come from untrusted
//! files and are inserted into a command line.

use std::path::{Path, PathBuf};

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use switchboard::cache::{ServerCache as _, server_cache_key};
use switchboard::id::ToolName;
use switchboard::mcp::ToolDefinition;
use switchboard::naming;
use switchboard_config::{LaunchDecision, ServerEntry, Trust};

use crate::process_env::{ConfigSelection, ProcessEnv};
use crate::server_cache::FileServerCache;
use crate::tool_schema::ToolSchema;

/// Completes an argument that is the name of a server.
pub(crate) fn server_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = |known: KnownServers| {
            let names = known.entries.iter().map(|entry| entry.name().to_string());
            names.collect::<Vec<_>>()
        };
        candidates(known_servers().map(names).unwrap_or_default())
    })
}

/// Completes an argument that is the name of a tool.
pub(crate) fn tool_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = |known: KnownServers| {
            let names = known
                .entries
                .iter()
                .flat_map(|entry| cached_tools(entry, &known.cache, &known.directory));
            names.collect::<Vec<_>>()
        };
        candidates(known_servers().map(names).unwrap_or_default())
    })
}

/// Completes an argument of the tool that the command line names.
pub(crate) fn argument_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let argv = ProcessEnv::read().argv;
        let names = |known: KnownServers| {
            let mut entries = known.entries.iter();
            let tool = entries.find_map(|entry| known.tool_on_line(entry, &argv));
            let schema = tool.map(|tool| ToolSchema::parse(&tool.input_schema));
            let schema = schema.unwrap_or_default();
            let names = schema.parameters().into_iter();
            names
                .map(|parameter| parameter.name.to_owned())
                .collect::<Vec<_>>()
        };
        let names = known_servers().map(names).unwrap_or_default().into_iter();
        let plain = names.filter(|name| is_plain(name));
        plain
            .map(|name| CompletionCandidate::new(format!("{name}=")))
            .collect()
    })
}

/// The configured servers, and the tool cache with the current directory, which is part of a cache
/// key.
struct KnownServers {
    entries: Vec<ServerEntry>,
    cache: FileServerCache,
    directory: PathBuf,
}

impl KnownServers {
    /// The cached tool of this server that the words of the command line name.
    fn tool_on_line(&self, entry: &ServerEntry, words: &[String]) -> Option<ToolDefinition> {
        let server = entry.name();
        let tools = cached_definitions(entry, &self.cache, &self.directory);
        tools.into_iter().find(|tool| {
            let name = tool.name.as_str();
            let wire_name = naming::wire_name(server, &ToolName::from(name));
            let dotted = format!("{server}.{name}");
            let is_pair = |pair: &[String]| pair == [server.as_str(), name];
            words
                .iter()
                .any(|word| *word == dotted || word == wire_name.as_str())
                || words.windows(2).any(is_pair)
        })
    }
}

fn known_servers() -> Option<KnownServers> {
    let env = ProcessEnv::read();
    let (loaded, cache, directory) = env.load_for_completion(&partial_flags(&env.argv))?;
    Some(KnownServers {
        entries: loaded.config.servers,
        cache,
        directory,
    })
}

/// Reads `--mcp-config` and `--strict-mcp-config` from a command line that is still being typed.
/// The two options decide which servers exist.
fn partial_flags(argv: &[String]) -> ConfigSelection {
    let mut selection = ConfigSelection::default();
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--mcp-config", value)) => selection.mcp_config.push(value.to_owned()),
            _ if word == "--mcp-config" => selection.mcp_config.extend(words.next().cloned()),
            _ => selection.strict |= word == "--strict-mcp-config",
        }
    }
    selection
}

/// The wire names of the tools in the server's cached listing. Empty if nothing is cached, or if
/// the entry may not be started even with `--trust-project`.
fn cached_tools(entry: &ServerEntry, cache: &FileServerCache, directory: &Path) -> Vec<String> {
    let name = |tool: &ToolDefinition| {
        naming::wire_name(entry.name(), &ToolName::from(tool.name.as_str())).to_string()
    };
    let tools = cached_definitions(entry, cache, directory);
    tools.iter().map(name).collect()
}

/// The tools in the server's cached listing.
fn cached_definitions(
    entry: &ServerEntry,
    cache: &FileServerCache,
    directory: &Path,
) -> Vec<ToolDefinition> {
    // The launch spec is only needed for the cache key; no server is launched.
    let LaunchDecision::Launch(spec) = entry.decide_launch(&Trust::project_for_this_run()) else {
        return Vec::new();
    };
    let tools = server_cache_key(&spec, Some(directory)).and_then(|key| cache.tools(&key));
    tools.unwrap_or_default()
}

fn candidates(names: Vec<String>) -> Vec<CompletionCandidate> {
    let plain = names.into_iter().filter(|name| is_plain(name));
    plain.map(CompletionCandidate::new).collect()
}

fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.starts_with('-') && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shell_safe_words_are_offered() {
        for name in ["files", "my-server.v2", "mcp__a__b"] {
            assert!(is_plain(name), "{name}");
        }
        for name in [
            "$(reboot)",
            "a;b",
            "a b",
            "a'b",
            "--yes",
            "~",
            "a\u{1b}b",
            "a*",
        ] {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn unfinished_line_selects_config() {
        let words = [
            "--",
            "switchboard",
            "--mcp-config",
            "a",
            "--mcp-config=b",
            "get",
            "--strict-mcp-config",
            "--mcp-config",
        ];
        let selection = partial_flags(&words.map(str::to_owned));
        assert_eq!(selection.mcp_config, ["a", "b"]);
        assert!(selection.strict);
    }
}
