//! Shell completion: the registration scripts, and the requests that these scripts send.
//!
//! A registration script runs this program with `SWITCHBOARD_COMPLETE` set. The names that complete
//! an argument come from [`crate::completion_candidates`].

use clap::CommandFactory as _;
use clap_complete::env::{CompleteEnv, Shells};

use crate::args::{Cli, Shell};
use crate::failure::Failure;

/// The environment variable that a registration script sets to request completions.
const VARIABLE: &str = "SWITCHBOARD_COMPLETE";
const PROGRAM: &str = "switchboard";

/// If this run is a completion request, prints the candidates and exits. Otherwise returns.
pub(crate) fn handle_completion_request() {
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .complete();
}

/// The script that registers completion with a shell.
pub(crate) fn script(shell: Shell) -> Result<String, Failure> {
    let name = match shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::Powershell => "powershell",
        Shell::Zsh => "zsh",
    };
    let shells = Shells::builtins();
    let unknown = || Failure::internal(format!("no completion script for {name}"));
    let shell = shells.completer(name).ok_or_else(unknown)?;
    let mut script = Vec::new();
    // The script calls the program by name and not by path, so that it works after the program was
    // moved.
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}
