//! What can be typed.
//!
//! Global flags stand before or after the command. Both places are read and put together here: with
//! clap's own global arguments a list given in one place would silently replace the other, and with
//! it a `--deny`.

mod add;
mod import;
mod resources;
mod rules;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::completion_candidates;
use crate::process_env::ConfigSelection;

pub(crate) use add::{
    AddArgs, AddJsonArgs, EntryTarget, RemoveArgs, Transport, WritableScope, suggest_double_dash,
};
pub(crate) use import::ImportArgs;
pub(crate) use resources::{PromptArgs, PromptsArgs, ReadArgs, ResourcesArgs};
pub(crate) use rules::{RuleArg, RuleArgs};
pub(crate) use watch::WatchArgs;

const EXAMPLES: &str = "\
Examples:
  switchboard demo                              see it work, nothing to configure
  switchboard add time -- uvx mcp-server-time   write a server into your config
  switchboard trust                             look at this project's servers and approve them
  switchboard list                              every server with its live status
  switchboard tools 'mcp__files__*'             the tools of one server
  switchboard describe mcp__files__read_file    one tool and its arguments
  switchboard call mcp__files__read_file path=notes.txt --yes
  echo '{\"a\": 15, \"b\": 27}' | switchboard call mcp__calc__add - --yes

Exit codes:
  0 ok   1 internal   2 usage   3 config   4 server unavailable or untrusted
  5 login needed   6 denied   7 the tool or server answered with an error
  8 timeout   9 outcome unknown   130 interrupted   141 nobody reads the result";

const CALL_EXAMPLES: &str = "\
Arguments:
  key=value     text, or what the tool's schema wants: a=15 is the number 15
  key:=json     JSON as it stands: tags:='[\"a\", \"b\"]'
  '{…}'         all arguments as one JSON object
  -             the same, read from stdin

A key given twice makes a list where the schema wants one.";

const COMPLETIONS_EXAMPLES: &str = "\
To complete from the next start of the shell on:
  bash        switchboard completions bash > ~/.local/share/bash-completion/completions/switchboard
  zsh         switchboard completions zsh > ~/.zfunc/_switchboard      (with ~/.zfunc in $fpath)
  fish        switchboard completions fish > ~/.config/fish/completions/switchboard.fish
  elvish      eval (switchboard completions elvish | slurp)            (in rc.elv)
  powershell  switchboard completions powershell | Out-String | Invoke-Expression   (in $PROFILE)

Names of servers and tools are completed from the config and from what the servers listed last;
nothing is started.";

const MANUAL_EXAMPLES: &str = "\
To read it:     switchboard man | man -l -
To install it:  switchboard man > ~/.local/share/man/man1/switchboard.1";

const TRUST_EXAMPLES: &str = "\
What is approved is exactly what was shown. When an entry changes in what it runs, it asks again.

Examples:
  switchboard trust                 look at everything that waits, one after the other
  switchboard trust files --yes     approve one, without a question
  switchboard trust --list          what was approved and rejected so far
  switchboard trust --revoke files  take it back";

/// Set up, inspect and call MCP servers.
#[derive(Debug, Parser)]
#[command(
    name = "switchboard",
    version,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Reads what was typed. A call, which is what programs type, is read without the description of
    /// all other commands: to make that takes as long as to connect to the server.
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
            // Whatever is wrong is told by the one who knows everything.
            Some(Err(_)) | None => Self::try_parse_from(&words),
        }
    }
}

/// A command line that is a call.
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
    /// List the servers with their live status
    List(WithGlobals<ListArgs>),
    /// Show one server in detail
    Get(WithGlobals<GetArgs>),
    /// Look at this project's servers and approve them
    #[command(after_help = TRUST_EXAMPLES)]
    Trust(WithGlobals<TrustArgs>),
    /// List the tools of all servers
    Tools(WithGlobals<ToolsArgs>),
    /// Show one tool and its arguments
    Describe(WithGlobals<DescribeArgs>),
    /// Call a tool
    #[command(after_help = CALL_EXAMPLES)]
    Call(WithGlobals<CallArgs>),
    /// List the resources of all servers
    Resources(WithGlobals<ResourcesArgs>),
    /// Read a resource
    #[command(after_help = resources::READ_EXAMPLES)]
    Read(WithGlobals<ReadArgs>),
    /// List the prompts of all servers
    Prompts(WithGlobals<PromptsArgs>),
    /// Fill in a prompt
    #[command(after_help = resources::PROMPT_EXAMPLES)]
    Prompt(WithGlobals<PromptArgs>),
    /// Tell what changes of a resource, or of what a tool answers
    #[command(after_help = watch::EXAMPLES)]
    Watch(WithGlobals<WatchArgs>),
    /// Find out what is wrong with the servers, and how to mend it
    Doctor(WithGlobals<DoctorArgs>),
    /// Show why a tool can be called, or why it cannot
    Why(WithGlobals<WhyArgs>),
    /// Add a server to the config
    #[command(after_help = add::ADD_EXAMPLES, override_usage = add::ADD_USAGE)]
    Add(WithGlobals<AddArgs>),
    /// Add a server whose entry is given as JSON
    #[command(after_help = add::ADD_JSON_EXAMPLES)]
    AddJson(WithGlobals<AddJsonArgs>),
    /// Remove a server from the config
    Remove(WithGlobals<RemoveArgs>),
    /// Switch a server on in this project
    Enable(WithGlobals<GetArgs>),
    /// Switch a server off in this project
    Disable(WithGlobals<GetArgs>),
    /// Look into what may be called
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Take over the servers of other programs
    #[command(after_help = import::EXAMPLES)]
    Import(WithGlobals<ImportArgs>),
    /// See it work: two servers, a few calls, a crash and a recovery
    Demo(WithGlobals<NoArgs>),
    /// Print a script that teaches a shell to complete
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the manual page, or that of one command
    #[command(after_help = MANUAL_EXAMPLES)]
    Man {
        /// A command of this program
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
    /// Print the JSON Schema of a config file, for editors
    Schema {
        /// Which file
        #[arg(value_name = "FILE", default_value = "mcp")]
        file: SchemaFile,
    },
    /// The server that the demo starts
    #[command(name = DEMO_SERVER, hide = true)]
    DemoServer,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show which rule decides on a call, and why; the call is not made
    #[command(after_help = CALL_EXAMPLES)]
    Test(WithGlobals<PolicyTestArgs>),
}

/// The shells that can be taught.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// The files that there is a schema of.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaFile {
    /// .mcp.json
    Mcp,
    /// settings.json
    Settings,
}

/// What is printed as it is, and needs no servers.
#[derive(Debug)]
pub(crate) enum StaticOutput {
    Completions(Shell),
    Manual(Option<String>),
    Schema(SchemaFile),
}

/// The hidden command under which this binary is a small MCP server.
pub(crate) const DEMO_SERVER: &str = "__demo-server";

/// A command's own arguments, and the global ones typed after it.
#[derive(Debug, Args)]
struct WithGlobals<A: Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    global: GlobalArgs,
}

/// What is to be done.
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
    PolicyTest(PolicyTestArgs),
    Import(ImportArgs),
    Demo,
    DemoServer,
    StaticOutput(StaticOutput),
}

#[derive(Debug, Args)]
pub(crate) struct NoArgs {}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Exit with 4 when a server failed or its tools could not be listed
    #[arg(long)]
    pub(crate) exit_status: bool,
    /// Stay, and show whatever changes until Ctrl-C
    #[arg(long, conflicts_with = "exit_status")]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The server's name
    #[arg(value_name = "NAME", add = completion_candidates::server_names())]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub(crate) struct TrustArgs {
    /// The server's name; all that wait for approval if none is given
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Approve without being asked
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Reject: it does not run, and does not ask again
    #[arg(long, conflicts_with = "yes", requires = "name")]
    pub(crate) reject: bool,
    /// List what was approved and rejected
    #[arg(long, conflicts_with_all = ["yes", "reject", "name"])]
    pub(crate) list: bool,
    /// Take back what was said about a server, or about all of this project
    #[arg(long, conflicts_with_all = ["yes", "reject", "list"])]
    pub(crate) revoke: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Part of a name, or a glob such as `mcp__files__*`
    #[arg(value_name = "PATTERN", add = completion_candidates::tool_names())]
    pub(crate) pattern: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The tool's name: `mcp__server__tool`
    #[arg(value_name = "TOOL", add = completion_candidates::tool_names())]
    pub(crate) tool: String,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Look at this server only
    #[arg(value_name = "NAME", add = completion_candidates::server_names())]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The tool's name: `mcp__server__tool`
    #[arg(value_name = "TOOL", add = completion_candidates::tool_names())]
    pub(crate) tool: String,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// The tool's name: `mcp__server__tool`
    #[arg(value_name = "TOOL", add = completion_candidates::tool_names())]
    pub(crate) tool: String,
    /// key=value, key:=json, one JSON object, or - for stdin
    #[arg(value_name = "ARGS", allow_negative_numbers = true)]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool's name: `mcp__server__tool`
    #[arg(value_name = "TOOL", add = completion_candidates::tool_names())]
    pub(crate) tool: String,
    /// key=value, key:=json, one JSON object, or - for stdin
    #[arg(value_name = "ARGS", allow_negative_numbers = true)]
    pub(crate) arguments: Vec<String>,
    /// Answer yes when permission is asked for
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// The flags that every command knows.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub(crate) struct GlobalArgs {
    /// Servers from this file or JSON text; may be repeated
    #[arg(long, value_name = "FILE|JSON", value_hint = ValueHint::FilePath)]
    pub(crate) mcp_config: Vec<String>,
    /// Use the servers of --mcp-config only
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,
    /// Approve this project's servers, for this run
    #[arg(long)]
    pub(crate) trust_project: bool,
    /// Print data instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Print results only
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Log to stderr; -vv logs more
    #[arg(long, short, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Log to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log_file: Option<PathBuf>,
    /// Write the wire traffic to a file, as JSON lines without secrets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

impl GlobalArgs {
    pub(crate) fn config_selection(&self) -> ConfigSelection {
        ConfigSelection {
            mcp_config: self.mcp_config.clone(),
            strict: self.strict_mcp_config,
        }
    }

    /// Both places together; what stands after_command wins where only one can hold.
    fn merge(mut self, after_command: Self) -> Self {
        self.mcp_config.extend(after_command.mcp_config);
        self.rules.0.extend(after_command.rules.0);
        Self {
            mcp_config: self.mcp_config,
            rules: self.rules,
            strict_mcp_config: self.strict_mcp_config || after_command.strict_mcp_config,
            trust_project: self.trust_project || after_command.trust_project,
            json: self.json || after_command.json,
            quiet: self.quiet || after_command.quiet,
            verbose: self.verbose.saturating_add(after_command.verbose),
            log_file: after_command.log_file.or(self.log_file),
            trace: after_command.trace.or(self.trace),
        }
    }
}

impl Cli {
    /// What is to be done, and the flags from both places.
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
            Command::Policy(PolicyCommand::Test(with)) => {
                (Invocation::PolicyTest(with.args), with.global)
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
    fn a_call_is_read_as_it_is_among_all_commands() {
        for line in [
            "call mcp__a__b",
            "call mcp__a__b key=value other:=[1] --yes",
            "--mcp-config a.json call --mcp-config b.json mcp__a__b - --json -q",
            "--deny mcp__x call mcp__a__b --deny mcp__y --timeout 5s",
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
            let whole = Cli::try_parse_from(&words);
            assert_eq!(format!("{read:?}"), format!("{whole:?}"), "{line}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_deny_before_the_command_survives_an_allow_after_it() {
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
    fn flags_of_both_places_count() {
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
    fn a_dash_and_flags_after_the_arguments_are_understood() {
        let (invocation, flags) = parse(&["call", "t", "-", "--yes", "--json"]);
        let Invocation::Call(call) = invocation else {
            panic!()
        };
        assert_eq!((call.arguments, call.yes), (vec!["-".to_owned()], true));
        assert!(flags.json);
    }
}
