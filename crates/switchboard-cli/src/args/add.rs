//! Arguments of `add`, `add-json` and `remove`.

use clap::{Args, ValueEnum};
use switchboard_config::Scope;

use switchboard::content::quote_for_shell;

/// Two usage lines: the one that clap generates would allow a URL and a command together.
pub(super) const ADD_USAGE: &str = "\
switchboard add [OPTIONS] NAME URL
       switchboard add [OPTIONS] NAME -- COMMAND [ARG]...";

/// The scopes that `add` can write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WritableScope {
    /// You, this project
    Local,
    /// Shared with the project (.mcp.json)
    Project,
    /// You, all projects (~/.mcp.json)
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

/// The transport of the entry.
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

/// The scope to write to, and whether to overwrite.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct EntryTarget {
    /// Scope to write to
    #[arg(
        long,
        short,
        value_enum,
        default_value = "local",
        hide_possible_values = true,
        value_name = "local|project|user"
    )]
    pub(crate) scope: WritableScope,
    /// Overwrite an existing server of that name
    #[arg(long)]
    pub(crate) force: bool,
}

/// Returns the corrected command line for `add NAME npx -y foo`, where clap parses the command's
/// options as options of `add`.
pub(crate) fn suggest_double_dash(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let (name, command) = rest.split_first()?;
    let (program, _) = command.split_first()?;
    let is_word = |word: &String| !word.starts_with('-');
    let fits = first == "add" && is_word(name) && is_word(program) && !program.contains("://");
    if !fits || command.iter().any(|word| word == "--") {
        return None;
    }
    let command: Vec<_> = command.iter().map(|word| quote_for_shell(word)).collect();
    let name = quote_for_shell(name);
    Some(format!("switchboard add {name} -- {}", command.join(" ")))
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Server name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) target: EntryTarget,
    /// Transport of the URL (default: detected)
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "stdio|http|sse"
    )]
    pub(crate) transport: Option<Transport>,
    /// Set an environment variable (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Send an HTTP header (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Read the variable's value from stdin, or prompt for it
    #[arg(long, value_name = "NAME")]
    pub(crate) env_from_stdin: Vec<String>,
    /// Read the header's value from stdin, or prompt for it (after all variables)
    #[arg(long, value_name = "NAME")]
    pub(crate) header_from_stdin: Vec<String>,
    /// URL of a remote server
    #[arg(value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Command and arguments of a stdio server
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AddJsonArgs {
    /// Server name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The entry as JSON, or - to read stdin
    #[arg(value_name = "JSON")]
    pub(crate) entry: String,
    #[command(flatten)]
    pub(crate) target: EntryTarget,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Server name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Scope to remove from; required if several scopes define the server
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "local|project|user"
    )]
    pub(crate) scope: Option<WritableScope>,
}
