//! What a shell may complete: commands, flags, and the names of servers and tools.
//!
//! The script of a shell asks this program, which answers from files alone: the config, and what was
//! remembered of the servers. Nothing is started and nothing is said. Invariant: what is offered is a
//! word that no shell reads as anything but itself, because names come from files of others and are
//! put into a command line.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use switchboard::id::ToolName;
use switchboard::mcp::Tool;
use switchboard::{ServerMemory as _, memory_key, naming};
use switchboard_config::{Admission, ServerEntry, Trust};

use crate::args::{Cli, GlobalArgs, Shell};
use crate::context::Surroundings;
use crate::failure::Failure;
use crate::memory::FileMemory;

/// The variable by which a script asks.
const VARIABLE: &str = "SWITCHBOARD_COMPLETE";
const PROGRAM: &str = "switchboard";

/// Answers a shell's question, if there is one, and ends the program then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .complete();
}

/// The script that makes a shell ask.
pub(crate) fn script(shell: Shell) -> Result<String, Failure> {
    let name = match shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::Powershell => "powershell",
        Shell::Zsh => "zsh",
    };
    let shells = Shells::builtins();
    let unknown = || Failure::internal(format!("nothing is known of {name}"));
    let shell = shells.completer(name).ok_or_else(unknown)?;
    let mut script = Vec::new();
    // By its name and not by its path, so that the script outlives a move of the program.
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Completes an argument that is the name of a server.
pub(crate) fn server_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = |(servers, _, _): Configured| {
            let names = servers.iter().map(|entry| entry.name().to_string());
            names.collect::<Vec<_>>()
        };
        candidates(configured().map(names).unwrap_or_default())
    })
}

/// Completes an argument that is the name of a tool.
pub(crate) fn tool_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = |(servers, memory, directory): Configured| {
            let names = servers
                .iter()
                .flat_map(|entry| tools_of(entry, &memory, &directory));
            names.collect::<Vec<_>>()
        };
        candidates(configured().map(names).unwrap_or_default())
    })
}

/// The servers, what is remembered of them, and the folder one is in.
type Configured = (Vec<ServerEntry>, FileMemory, PathBuf);

fn configured() -> Option<Configured> {
    let surroundings = Surroundings::read();
    let flags = flags_of(surroundings.typed());
    let (loaded, memory, directory) = surroundings.peek(&flags)?;
    Some((loaded.config.servers, memory, directory))
}

/// The flags that decide which servers there are, of a line that is not finished yet.
fn flags_of(typed: &[String]) -> GlobalArgs {
    let mut flags = GlobalArgs::default();
    let mut words = typed.iter();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--mcp-config", value)) => flags.mcp_config.push(value.to_owned()),
            _ if word == "--mcp-config" => flags.mcp_config.extend(words.next().cloned()),
            _ => flags.strict_mcp_config |= word == "--strict-mcp-config",
        }
    }
    flags
}

/// The tools that a server listed when it was last connected.
fn tools_of(entry: &ServerEntry, memory: &FileMemory, directory: &Path) -> Vec<String> {
    // Nothing is launched: that it could be says under which key it is remembered.
    let Admission::Launch(spec) = entry.admit(&Trust::project_for_this_run()) else {
        return Vec::new();
    };
    let tools = memory_key(&spec, Some(directory)).and_then(|key| memory.tools(&key));
    let name = |tool: &Tool| {
        naming::wire_name(entry.name(), &ToolName::from(tool.name.as_str())).to_string()
    };
    tools.iter().flatten().map(name).collect()
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
    fn only_words_that_no_shell_minds_are_offered() {
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
    fn flags_are_found_in_an_unfinished_line() {
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
        let flags = flags_of(&words.map(str::to_owned));
        assert_eq!(flags.mcp_config, ["a", "b"]);
        assert!(flags.strict_mcp_config);
    }
}
