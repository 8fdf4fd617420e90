//! Arguments of `import`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueHint};
use switchboard_config::import::Client;

use super::WritableScope;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Client to import from (default: all)
    #[arg(
        value_name = "CLIENT",
        value_parser = PossibleValuesParser::new(Client::ALL.map(Client::as_str))
            .try_map(|name| name.parse::<Client>())
    )]
    pub(crate) client: Option<Client>,
    /// Scope to import into
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "local|project|user"
    )]
    pub(crate) scope: Option<WritableScope>,
    /// Import without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Read only this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}
