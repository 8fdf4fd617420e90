//! Options that every command accepts before its name, and most commands also after it.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

use super::RuleArgs;
use crate::process_env::ConfigSelection;

/// The global options.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each field is one command-line flag"
)]
pub(crate) struct GlobalArgs {
    /// Load servers from a file or JSON text (repeatable)
    #[arg(long, value_name = "FILE|JSON", value_hint = ValueHint::FilePath)]
    pub(crate) mcp_config: Vec<String>,
    /// Use only servers given with --mcp-config
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,
    /// Trust this project's servers for this run only
    #[arg(long)]
    pub(crate) trust_project: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only results and errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Log to stderr (-vv for debug output)
    #[arg(long, short, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Log to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log_file: Option<PathBuf>,
    /// Write protocol traffic to a file as JSON lines (secrets masked)
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

    /// Merges options given before the command with those given after it. Lists are joined; of an
    /// option that takes one value, the one after the command wins.
    pub(super) fn merge(mut self, after_command: Self) -> Self {
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
