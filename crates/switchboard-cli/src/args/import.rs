//! What can be typed to take over servers of other programs.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueHint};
use switchboard_config::import::Client;

use super::WritableScope;

pub(crate) const EXAMPLES: &str = "\
Examples:
  switchboard import                    show what other programs have, and ask
  switchboard import --yes              take it
  switchboard import cursor             only from Cursor
  switchboard import --file ~/backup/.claude.json

What a program has for you goes to the user scope, what it has for this project to the local scope; -s
chooses another. Entries of files that lie in the project were written by whoever wrote the project: they
are shown and asked about, and --yes alone does not take them; --trust-project --yes does.";

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Whose servers; those of all programs unless given
    #[arg(
        value_name = "CLIENT",
        value_parser = PossibleValuesParser::new(Client::ALL.map(Client::as_str))
            .try_map(|name| name.parse::<Client>())
    )]
    pub(crate) client: Option<Client>,
    /// Whose servers they become here
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "local|project|user"
    )]
    pub(crate) scope: Option<WritableScope>,
    /// Take them without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Read this file and no other
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}
