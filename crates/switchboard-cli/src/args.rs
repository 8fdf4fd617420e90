//! The command line, defined with clap.
//!
//! Global options are accepted before the command and, except by commands that print fixed text,
//! after it. Both positions are parsed separately and merged: with clap's own global arguments, a
//! list of values after the command would replace the list before the command, and a `--deny` could
//! get lost.

mod add;
mod duration;
mod global;
mod help;
mod import;
mod policy;
mod resources;
mod rules;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::completion_candidates;
use policy::PolicyCommand;

pub(crate) use add::{
    AddArgs, AddJsonArgs, EntryTarget, RemoveArgs, Transport, WritableScope, suggest_double_dash,
};
pub(crate) use global::GlobalArgs;
pub(crate) use import::ImportArgs;
pub(crate) use policy::{PolicyAddArgs, PolicyRemoveArgs, PolicyTestArgs, RuleActionArg};
pub(crate) use resources::{PromptArgs, PromptsArgs, ReadArgs, ResourcesArgs};
pub(crate) use rules::{RuleArg, RuleArgs};
pub(crate) use watch::WatchArgs;

/// Set up, inspect, debug and call MCP servers
///
/// Reads .mcp.json from the project and your home directory. Project servers run only after
/// `switchboard trust`.
#[derive(Debug, Parser)]
#[command(
    name = "switchboard",
    version,
    arg_required_else_help = true,
    after_help = help::TOP_LEVEL,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Parses the command line. A `call` is parsed without the other commands: building the full
    /// clap command takes as long as connecting to a server, and programs run `call` most often.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<_> = words.collect();
        let may_be_call = words.iter().any(|word| word == "call");
        match may_be_call.then(|| CallOnlyCli::try_parse_from(&words)) {
            Some(Ok(CallOnlyCli {
                global,
                command: CallOnlyCommand::Call(call),
            })) => Ok(Self {
                global,
                command: Command::Call(call),
            }),
            // Parse again with all commands: `CallOnlyCli` does not know the other commands, so its
            // error message is incomplete.
            Some(Err(_)) | None => Self::try_parse_from(&words),
        }
    }
}

/// A command line whose only command is `call`.
#[derive(Parser)]
#[command(name = "switchboard", disable_help_subcommand = true)]
struct CallOnlyCli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: CallOnlyCommand,
}

#[derive(Subcommand)]
enum CallOnlyCommand {
    Call(WithGlobals<CallArgs>),
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List servers and their live status
    ///
    /// Starts every enabled and approved server that is not `lazy`, waits until it is connected or
    /// failed, and prints status, scope, transport, tool count and connect time. Exits with 0 even
    /// if servers failed; use --exit-status in scripts.
    List(WithGlobals<ListArgs>),
    /// Show details of one server
    ///
    /// Starts the server and prints its config entry, protocol version, capabilities, instructions
    /// and the end of its stderr.
    Get(WithGlobals<GetArgs>),
    /// Review and approve this project's servers
    ///
    /// Shows what each server in .mcp.json would run and asks for approval. Starts no server.
    #[command(after_help = help::TRUST)]
    Trust(WithGlobals<TrustArgs>),
    /// List tools
    ///
    /// Lists the tools of all servers. PATTERN filters by substring or glob. A pattern that starts
    /// with `mcp__NAME__` starts only the server NAME.
    Tools(WithGlobals<ToolsArgs>),
    /// Show a tool's description and arguments
    ///
    /// Prints the tool's description, its arguments with types and defaults, and a command to call
    /// it.
    Describe(WithGlobals<DescribeArgs>),
    /// Call a tool
    ///
    /// Starts only the server that owns the tool. Asks for permission unless a rule or --yes
    /// decides. The result goes to stdout, progress to stderr.
    #[command(after_help = help::CALL)]
    Call(WithGlobals<CallArgs>),
    /// List resources
    ///
    /// Lists the resources of all servers, or of SERVER. --templates lists URI templates instead.
    Resources(WithGlobals<ResourcesArgs>),
    /// Read a resource
    #[command(after_help = help::READ)]
    Read(WithGlobals<ReadArgs>),
    /// List prompts
    ///
    /// Lists the prompts of all servers, or of SERVER, with their arguments.
    Prompts(WithGlobals<PromptsArgs>),
    /// Get a prompt with arguments
    ///
    /// Sends the arguments to the server and prints the resulting messages.
    #[command(after_help = help::PROMPT)]
    Prompt(WithGlobals<PromptArgs>),
    /// Watch a resource or a tool result and print changes
    #[command(after_help = help::WATCH)]
    Watch(WithGlobals<WatchArgs>),
    /// Diagnose servers and suggest fixes
    ///
    /// Checks every step from config entry to callable tools, then the environment: programs,
    /// proxies, certificates. Exits with 4 if something is broken.
    Doctor(WithGlobals<DoctorArgs>),
    /// Explain why a tool can or cannot be called
    ///
    /// Runs the doctor checks for one tool and shows which permission rule decides.
    Why(WithGlobals<WhyArgs>),
    /// Add a server
    ///
    /// Writes an entry to the local scope unless -s names another. Comments and formatting of the
    /// file are kept.
    #[command(after_help = help::ADD, override_usage = add::ADD_USAGE)]
    Add(WithGlobals<AddArgs>),
    /// Add a server from a JSON entry
    ///
    /// Same as `add`, with the whole entry as JSON.
    #[command(after_help = help::ADD_JSON)]
    AddJson(WithGlobals<AddJsonArgs>),
    /// Remove a server
    ///
    /// Deletes the entry from its file.
    Remove(WithGlobals<RemoveArgs>),
    /// Enable a server in this project
    ///
    /// Removes the server from `disabledServers` in the local settings.
    Enable(WithGlobals<GetArgs>),
    /// Disable a server in this project
    ///
    /// Adds the server to `disabledServers` in the local settings. A disabled server is not
    /// started.
    Disable(WithGlobals<GetArgs>),
    /// Print a server's stderr and log messages
    ///
    /// Starts the server, asks it for its log messages and prints what it writes until half
    /// a second after it is ready.
    Logs(WithGlobals<LogsArgs>),
    /// Forget what is cached of a server, start it and report changes
    ///
    /// Forgets the cached protocol era and tools of the server, then starts it.
    Restart(WithGlobals<GetArgs>),
    /// Test, list and edit permission rules
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Import servers from other MCP clients
    ///
    /// Finds servers of Claude Code, Claude Desktop, Cursor, VS Code, Windsurf, Codex, Gemini CLI,
    /// Zed and opencode, shows the plan and asks. Existing entries are never replaced.
    #[command(after_help = help::IMPORT)]
    Import(WithGlobals<ImportArgs>),
    /// Run a short demo with built-in servers
    ///
    /// Starts two servers, calls tools, denies one call, kills a server and reconnects. Needs no
    /// config.
    Demo(WithGlobals<NoArgs>),
    /// Print a shell completion script
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// Shell to complete in
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the manual page
    ///
    /// `switchboard man COMMAND` prints the page of one command.
    #[command(after_help = help::MAN)]
    Man {
        /// Command to print the page of
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
    /// Print the JSON Schema of a config file
    ///
    /// Use it for completion and validation in editors.
    Schema {
        /// File to print the schema of
        #[arg(value_name = "FILE", default_value = "mcp")]
        file: SchemaFile,
    },
    /// The stdio server that the demo starts
    #[command(name = DEMO_SERVER, hide = true)]
    DemoServer,
}

/// The shells with a completion script.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// The files with a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaFile {
    /// .mcp.json
    Mcp,
    /// settings.json
    Settings,
}

/// A command that prints fixed text and needs neither config nor servers.
#[derive(Debug)]
pub(crate) enum StaticOutput {
    Completions(Shell),
    Manual(Option<String>),
    Schema(SchemaFile),
}

/// The hidden command that runs this binary as the stdio MCP server of `demo`.
pub(crate) const DEMO_SERVER: &str = "__demo-server";

/// The arguments of a command, and the global options given after the command name.
#[derive(Debug, Args)]
struct WithGlobals<A: Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    global: GlobalArgs,
}

/// The command to run, without global options.
#[derive(Debug)]
pub(crate) enum Invocation {
    List(ListArgs),
    Get(GetArgs),
    Trust(TrustArgs),
    Tools(ToolsArgs),
    Describe(DescribeArgs),
    Call(CallArgs),
    Resources(ResourcesArgs),
    Read(ReadArgs),
    Prompts(PromptsArgs),
    Prompt(PromptArgs),
    Watch(WatchArgs),
    Doctor(DoctorArgs),
    Why(WhyArgs),
    Add(AddArgs),
    AddJson(AddJsonArgs),
    Remove(RemoveArgs),
    Enable(GetArgs),
    Disable(GetArgs),
    Logs(LogsArgs),
    Restart(GetArgs),
    PolicyTest(PolicyTestArgs),
    PolicyAdd(PolicyAddArgs),
    PolicyList,
    PolicyRemove(PolicyRemoveArgs),
    Import(ImportArgs),
    Demo,
    DemoServer,
    StaticOutput(StaticOutput),
}

#[derive(Debug, Args)]
pub(crate) struct NoArgs {}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Exit with 4 if any server failed or could not list its tools
    #[arg(long)]
    pub(crate) exit_status: bool,
    /// Keep running and redraw on every change
    #[arg(long, conflicts_with = "exit_status")]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Server name
    #[arg(value_name = "NAME", add = completion_candidates::server_names())]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Server name
    #[arg(value_name = "NAME", add = completion_candidates::server_names())]
    pub(crate) name: String,
    /// Keep running and print new lines until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each field is one command-line flag"
)]
pub(crate) struct TrustArgs {
    /// Server name (default: all servers that need approval)
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Approve without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Reject the server: it is not started and not asked about again
    #[arg(long, conflicts_with = "yes", requires = "name")]
    pub(crate) reject: bool,
    /// List recorded approvals and rejections
    #[arg(long, conflicts_with_all = ["yes", "reject", "name"])]
    pub(crate) list: bool,
    /// Forget the recorded decision for NAME, or for all servers of this project
    #[arg(long, conflicts_with_all = ["yes", "reject", "list"])]
    pub(crate) revoke: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Part of a tool name, or a glob such as `mcp__files__*`
    #[arg(value_name = "PATTERN", add = completion_candidates::tool_names())]
    pub(crate) pattern: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// Tool name: `mcp__server__tool`, `SERVER.TOOL` or two words
    #[arg(value_name = "TOOL", add = completion_candidates::tool_names())]
    pub(crate) tool: String,
    /// The tool's own name, if the first word is a server name
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Check only this server
    #[arg(value_name = "NAME", add = completion_candidates::server_names())]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Tool name: `mcp__server__tool`, `SERVER.TOOL` or two words
    #[arg(value_name = "TOOL", add = completion_candidates::tool_names())]
    pub(crate) tool: String,
    /// The tool's own name, if the first word is a server name
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Tool name: `mcp__server__tool`, `SERVER.TOOL` or two words
    #[arg(value_name = "TOOL", add = completion_candidates::tool_names())]
    pub(crate) tool: String,
    /// key=value, key:=json, one JSON object, or - to read stdin
    #[arg(
        value_name = "ARGS",
        allow_negative_numbers = true,
        add = completion_candidates::argument_names()
    )]
    pub(crate) arguments: Vec<String>,
    /// Allow the call without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Write the image, audio or binary data of the result to FILE, or else its text; fails if it
    /// exists
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite FILE
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Maximum duration of the call: 30s, 5m, 1h; overrides the config
    #[arg(long, value_name = "TIME", value_parser = duration::parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

impl Cli {
    /// Splits the command line into the command and the merged global options.
    pub(crate) fn into_invocation(self) -> (Invocation, GlobalArgs) {
        let (invocation, after_command) = match self.command {
            Command::List(with) => (Invocation::List(with.args), with.global),
            Command::Get(with) => (Invocation::Get(with.args), with.global),
            Command::Trust(with) => (Invocation::Trust(with.args), with.global),
            Command::Tools(with) => (Invocation::Tools(with.args), with.global),
            Command::Describe(with) => (Invocation::Describe(with.args), with.global),
            Command::Call(with) => (Invocation::Call(with.args), with.global),
            Command::Resources(with) => (Invocation::Resources(with.args), with.global),
            Command::Read(with) => (Invocation::Read(with.args), with.global),
            Command::Prompts(with) => (Invocation::Prompts(with.args), with.global),
            Command::Prompt(with) => (Invocation::Prompt(with.args), with.global),
            Command::Watch(with) => (Invocation::Watch(with.args), with.global),
            Command::Doctor(with) => (Invocation::Doctor(with.args), with.global),
            Command::Why(with) => (Invocation::Why(with.args), with.global),
            Command::Add(with) => (Invocation::Add(with.args), with.global),
            Command::AddJson(with) => (Invocation::AddJson(with.args), with.global),
            Command::Remove(with) => (Invocation::Remove(with.args), with.global),
            Command::Enable(with) => (Invocation::Enable(with.args), with.global),
            Command::Disable(with) => (Invocation::Disable(with.args), with.global),
            Command::Logs(with) => (Invocation::Logs(with.args), with.global),
            Command::Restart(with) => (Invocation::Restart(with.args), with.global),
            Command::Policy(PolicyCommand::Test(with)) => {
                (Invocation::PolicyTest(with.args), with.global)
            }
            Command::Policy(PolicyCommand::Add(with)) => {
                (Invocation::PolicyAdd(with.args), with.global)
            }
            Command::Policy(PolicyCommand::List(with)) => (Invocation::PolicyList, with.global),
            Command::Policy(PolicyCommand::Remove(with)) => {
                (Invocation::PolicyRemove(with.args), with.global)
            }
            Command::Import(with) => (Invocation::Import(with.args), with.global),
            Command::Demo(with) => (Invocation::Demo, with.global),
            Command::DemoServer => (Invocation::DemoServer, GlobalArgs::default()),
            Command::Completions { shell } => (
                Invocation::StaticOutput(StaticOutput::Completions(shell)),
                GlobalArgs::default(),
            ),
            Command::Man { command } => (
                Invocation::StaticOutput(StaticOutput::Manual(command)),
                GlobalArgs::default(),
            ),
            Command::Schema { file } => (
                Invocation::StaticOutput(StaticOutput::Schema(file)),
                GlobalArgs::default(),
            ),
        };
        (invocation, self.global.merge(after_command))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use switchboard::permission::Action;

    use super::*;

    fn parse(words: &[&str]) -> (Invocation, GlobalArgs) {
        let words = ["switchboard"].iter().chain(words);
        Cli::try_parse_from(words).unwrap().into_invocation()
    }

    #[test]
    fn call_parser_agrees_with_full_parser() {
        for line in [
            "call mcp__a__b",
            "call mcp__a__b key=value other:=[1] --yes",
            "--mcp-config a.json call --mcp-config b.json mcp__a__b - --json -q",
            "--deny mcp__x call mcp__a__b --deny mcp__y --timeout 5s",
            "call a b key=value -o file --force --timeout soon",
            "list call",
            "tools call",
            "call",
            "call --help",
            "--version call",
            "call mcp__a__b --no-such-flag",
            "--mcp-config call list",
        ] {
            let words: Vec<_> = std::iter::once("switchboard")
                .chain(line.split(' '))
                .map(OsString::from)
                .collect();
            let read = Cli::read(words.iter().cloned());
            let full = Cli::try_parse_from(&words);
            assert_eq!(format!("{read:?}"), format!("{full:?}"), "{line}");
        }
    }

    #[test]
    fn clap_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rules_before_and_after_command_keep_their_order() {
        let (_, flags) = parse(&[
            "--deny", "a", "--ask", "b", "call", "t", "--allow", "c", "--ask", "d", "--allow", "e",
        ]);
        let rules = flags
            .rules
            .0
            .iter()
            .map(|rule| (rule.action, rule.pattern.as_str()));
        assert_eq!(
            rules.collect::<Vec<_>>(),
            [
                (Action::Deny, "a"),
                (Action::Ask, "b"),
                (Action::Allow, "c"),
                (Action::Ask, "d"),
                (Action::Allow, "e"),
            ]
        );
    }

    #[test]
    fn options_before_and_after_command_are_merged() {
        let (_, flags) = parse(&[
            "--mcp-config",
            "one",
            "-v",
            "--trace",
            "old",
            "list",
            "--mcp-config",
            "two",
            "-v",
            "--json",
            "--trace",
            "new",
        ]);
        assert_eq!(flags.mcp_config, ["one", "two"]);
        assert_eq!((flags.verbose, flags.json), (2, true));
        assert_eq!(flags.trace, Some("new".into()));
    }

    #[test]
    fn stdin_dash_and_later_flags_are_parsed() {
        let (invocation, flags) = parse(&["call", "t", "-", "--yes", "--json"]);
        let Invocation::Call(call) = invocation else {
            panic!()
        };
        assert_eq!((call.arguments, call.yes), (vec!["-".to_owned()], true));
        assert!(flags.json);
    }
}
