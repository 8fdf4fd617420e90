//! `completions`, `man` and `schema`: print text that does not depend on the config.

use clap::CommandFactory as _;
use clap_mangen::Man;
use switchboard_config::{key_table, nearest};

use crate::args::{Cli, SchemaFile, StaticOutput};
use crate::completion;
use crate::failure::{Exit, Failure};
use crate::render::Console;

pub(crate) fn run(page: &StaticOutput, console: &Console) -> Result<Exit, Failure> {
    let text = match page {
        StaticOutput::Completions(shell) => completion::script(*shell)?,
        StaticOutput::Manual(command) => render_manual(command.as_deref())?,
        StaticOutput::Schema(SchemaFile::Mcp) => format!("{:#}", key_table::servers_schema()),
        StaticOutput::Schema(SchemaFile::Settings) => format!("{:#}", key_table::settings_schema()),
    };
    console.print(&text)?;
    Ok(Exit::Ok)
}

/// Renders the manual page of the program, or of one command.
fn render_manual(command: Option<&str>) -> Result<String, Failure> {
    let mut program = Cli::command();
    program.build();
    let chosen = match command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(chosen) => chosen.clone(),
            None => return Err(no_manual_error(name, &program)),
        },
    };
    let mut page = Vec::new();
    Man::new(chosen).manual("Switchboard").render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn no_manual_error(name: &str, program: &clap::Command) -> Failure {
    let visible = program
        .get_subcommands()
        .filter(|known| !known.is_hide_set());
    let names: Vec<_> = visible.map(clap::Command::get_name).collect();
    let failure = Failure::usage(format!("no such command: {name:?}"));
    match nearest(name, &names) {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None => failure.hint(format!("available commands: {}", names.join(", "))),
    }
}
