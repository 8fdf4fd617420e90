//! The `switchboard` command: set up, inspect, debug and call MCP servers.
//!
//! Parses the command line, runs one command and turns its outcome into the exit code.

mod always_allow;
mod args;
mod browser;
mod charset;
mod commands;
mod completion;
mod completion_candidates;
mod context;
mod diagnosis;
mod elicit;
mod engine_settings;
mod exact_number;
mod failure;
mod find_program;
mod hidden_input;
mod interaction;
mod logging;
mod network;
mod permission_prompt;
mod private_file;
mod process_env;
mod process_guard;
mod render;
mod server_cache;
mod signals;
mod terminal;
mod tool_arguments;
mod tool_schema;
mod trace;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::{Cli, GlobalArgs, Invocation};
use context::Context;
use failure::{Exit, Failure};
use process_env::ProcessEnv;
use render::Console;
use signals::Signals;

/// File descriptors that a command with one stdio server needs.
const MIN_FREE_DESCRIPTORS: usize = 24;

fn main() -> ExitCode {
    // Check for the guardian before anything else: a guardian process must stay small and reads
    // only its pipe.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == process_guard::GUARDIAN)
    {
        switchboard::process::run_guardian();
        return ExitCode::SUCCESS;
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == browser::SPAWN_DETACHED)
    {
        return browser::spawn_detached(std::env::args_os().skip(2));
    }
    completion::handle_completion_request();
    let (invocation, flags) = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli.into_invocation(),
        Err(error) => return print_usage_error(error),
    };
    if matches!(invocation, Invocation::DemoServer) {
        return commands::demo::server::run();
    }
    let env = ProcessEnv::read();
    let console = context::console_for(&env, &flags);
    let outcome = match invocation {
        Invocation::StaticOutput(page) => commands::static_output::run(&page, &console),
        invocation => run(invocation, flags, env, console.clone()),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console.fail(&failure);
            failure.parts().kind.exit().into()
        }
    }
}

/// Prints a usage error or the help text and exits. With `--json` a usage error is printed as JSON
/// too.
fn print_usage_error(mut error: clap::Error) -> ExitCode {
    let words: Vec<_> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(line) = args::suggest_double_dash(&words)
    {
        // Replaces clap's tip, which puts `--` in front of the unknown option and not in front of
        // the command.
        let tip = format!("put the command after --: {line}").into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    let wants_json = words.iter().any(|word| word == "--json");
    if error.use_stderr() && wants_json {
        let failure = Failure::usage(error.to_string().trim_end().to_owned());
        println!("{}", render::json::failure(&failure));
    }
    error.exit()
}

fn run(
    invocation: Invocation,
    flags: GlobalArgs,
    env: ProcessEnv,
    console: Console,
) -> Result<Exit, Failure> {
    require_file_descriptors()?;
    logging::start(flags.verbose, flags.log_file.as_deref(), &console)?;
    let context = Context::new(flags, env, console)?;
    // Single-threaded: the work is mostly waiting, and a thread switch costs more than any step of
    // it. Blocking reads run on the blocking pool.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        commands::run(invocation, &context, &mut signals).await
    });
    // Do not wait for blocking threads: one may still be reading stdin.
    runtime.shutdown_background();
    outcome
}

/// Fails if the process cannot open [`MIN_FREE_DESCRIPTORS`] more files. The runtime would panic or
/// report a confusing error.
fn require_file_descriptors() -> Result<(), Failure> {
    let pipes: std::io::Result<Vec<_>> = (0..MIN_FREE_DESCRIPTORS / 2)
        .map(|_| std::io::pipe())
        .collect();
    pipes.map(drop).map_err(|error| {
        Failure::internal(format!("cannot open {MIN_FREE_DESCRIPTORS} files: {error}"))
            .hint("raise the limit on open files: ulimit -n 1024")
    })
}
