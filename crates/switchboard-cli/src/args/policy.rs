//! Arguments of `policy`.

use clap::{Args, Subcommand, ValueEnum};

use super::add::WritableScope;
use super::{NoArgs, WithGlobals, help};
use crate::completion_candidates;

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Show which permission rule applies to a call
    ///
    /// Evaluates the rules for TOOL with ARGS and prints the matching rules. Does not call the
    /// tool.
    #[command(after_help = help::CALL)]
    Test(WithGlobals<PolicyTestArgs>),
    /// Add a permission rule to the settings
    #[command(after_help = help::POLICY_ADD)]
    Add(WithGlobals<PolicyAddArgs>),
    /// List the permission rules of all settings files
    List(WithGlobals<NoArgs>),
    /// Remove a permission rule from the settings
    ///
    /// Removes every rule whose tool pattern is exactly PATTERN.
    Remove(WithGlobals<PolicyRemoveArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
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
}

#[derive(Debug, Args)]
pub(crate) struct PolicyAddArgs {
    /// What happens to matching calls
    #[arg(value_name = "ACTION", value_enum)]
    pub(crate) action: RuleActionArg,
    /// Tool pattern: `mcp__server`, `mcp__server__tool`, globs allowed
    #[arg(value_name = "PATTERN", add = completion_candidates::tool_names())]
    pub(crate) pattern: String,
    /// Only calls whose arguments match, such as path=src/** (repeatable; all must match)
    #[arg(long = "where", value_name = "ARG")]
    pub(crate) conditions: Vec<String>,
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
}

#[derive(Debug, Args)]
pub(crate) struct PolicyRemoveArgs {
    /// Tool pattern of the rule, as `policy list` shows it
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: String,
    /// Only rules with this action
    #[arg(long, value_enum)]
    pub(crate) action: Option<RuleActionArg>,
    /// Scope of the rule (required if several scopes have it)
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "local|project|user"
    )]
    pub(crate) scope: Option<WritableScope>,
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuleActionArg {
    /// Allow without asking
    Allow,
    /// Ask before the call
    Ask,
    /// Deny; overrides every allow
    Deny,
}

impl RuleActionArg {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
