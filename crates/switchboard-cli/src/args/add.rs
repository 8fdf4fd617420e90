//! What can be typed to change the config.

use clap::{Args, ValueEnum};
use switchboard_config::Scope;

use crate::render::text::shell_word;

/// Both forms, because what clap makes of them is one that allows both at once.
pub(crate) const ADD_USAGE: &str = "\
switchboard add [OPTIONS] NAME URL
       switchboard add [OPTIONS] NAME -- COMMAND [ARG]...";

pub(crate) const ADD_EXAMPLES: &str = "\
Examples:
  switchboard add time -- uvx mcp-server-time
  switchboard add files -s project -- npx -y @modelcontextprotocol/server-filesystem .
  switchboard add hub -e 'TOKEN=${HUB_TOKEN}' -- hub-server   the variable is looked up at each start
  switchboard add hub --env-from-stdin TOKEN -- hub-server    asked for, and not in the shell's history
  switchboard add docs https://example.com/mcp
  switchboard add docs https://example.com/mcp --header-from-stdin Authorization < header.txt

What stands behind -- is the command, with all that looks like an option there.
Scopes: local is for you in this project, project is for everybody who has it, user is for you everywhere.";

pub(crate) const ADD_JSON_EXAMPLES: &str = "\
Example:
  switchboard add-json time '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'";

/// The scopes that a user can write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WritableScope {
    /// For you, in this project
    Local,
    /// For everybody who has this project: its .mcp.json
    Project,
    /// For you, everywhere: ~/.mcp.json
    User,
}

impl From<WritableScope> for Scope {
    fn from(scope: WritableScope) -> Self {
        match scope {
            WritableScope::Local => Self::Local,
            WritableScope::Project => Self::Project,
            WritableScope::User => Self::User,
        }
    }
}

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Stdio,
    #[value(alias = "streamable-http")]
    Http,
    Sse,
}

impl Transport {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

/// Where an entry is written to.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct EntryTarget {
    /// Whose server it is
    #[arg(
        long,
        short,
        value_enum,
        default_value = "local",
        hide_possible_values = true,
        value_name = "local|project|user"
    )]
    pub(crate) scope: WritableScope,
    /// Replace a server of the same name in that scope
    #[arg(long)]
    pub(crate) force: bool,
}

/// What was meant by `add NAME npx -y foo`, where the command's own options are taken for ours.
pub(crate) fn suggest_double_dash(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let (name, command) = rest.split_first()?;
    let (program, _) = command.split_first()?;
    let is_word = |word: &String| !word.starts_with('-');
    let fits = first == "add" && is_word(name) && is_word(program) && !program.contains("://");
    if !fits || command.iter().any(|word| word == "--") {
        return None;
    }
    let command: Vec<_> = command.iter().map(|word| shell_word(word)).collect();
    let name = shell_word(name);
    Some(format!("switchboard add {name} -- {}", command.join(" ")))
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The server's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) target: EntryTarget,
    /// How a URL is spoken to; found out unless given
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "stdio|http|sse"
    )]
    pub(crate) transport: Option<Transport>,
    /// A variable for the command; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header for the URL; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// A variable whose value is a line of stdin, or asked for
    #[arg(long, value_name = "NAME")]
    pub(crate) env_from_stdin: Vec<String>,
    /// The same for a header; headers are read after variables
    #[arg(long, value_name = "NAME")]
    pub(crate) header_from_stdin: Vec<String>,
    /// Where the server is
    #[arg(value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// What starts it
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AddJsonArgs {
    /// The server's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Its entry, as it would stand in a file; - reads it from stdin
    #[arg(value_name = "JSON")]
    pub(crate) entry: String,
    #[command(flatten)]
    pub(crate) target: EntryTarget,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The server's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Whose server it is; needed where several scopes have one of this name
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "local|project|user"
    )]
    pub(crate) scope: Option<WritableScope>,
}
