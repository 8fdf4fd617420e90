//! The `switchboard` command: set up, inspect, debug and call MCP servers.

mod always;
mod args;
mod arguments;
mod ask;
mod chain;
mod commands;
mod completion;
mod completion_candidates;
mod context;
mod custody;
mod failure;
mod front;
mod hidden_input;
mod interview;
mod logging;
mod memory;
mod network;
mod opener;
mod process_env;
mod programs;
mod render;
mod schema;
mod settings;
mod signals;
mod terminal;
mod trace;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::{Cli, GlobalArgs, Task};
use context::Context;
use failure::{Exit, Failure};
use process_env::ProcessEnv;
use render::Screen;
use signals::Signals;

fn main() -> ExitCode {
    // First of all: a guardian is small, and reads nothing but its pipe.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == custody::GUARDIAN)
    {
        switchboard::process::keep_watch();
        return ExitCode::SUCCESS;
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == opener::START_APART)
    {
        return opener::start_apart(std::env::args_os().skip(2));
    }
    completion::handle_completion_request();
    let (task, flags) = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli.into_task(),
        Err(error) => return refuse(error),
    };
    if matches!(task, Task::DemoServer) {
        return commands::demo_server::run();
    }
    let env = ProcessEnv::read();
    let screen = context::screen(&env, &flags);
    let outcome = match task {
        Task::Page(page) => commands::page::run(&page, &screen),
        task => run(task, flags, env, screen.clone()),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            screen.fail(&failure);
            failure.parts().kind.exit().into()
        }
    }
}

/// What was typed is not understood (or asks for help): told as usual and, if data was asked for, as
/// data too.
fn refuse(mut error: clap::Error) -> ExitCode {
    let words: Vec<_> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(line) = args::with_command_apart(&words)
    {
        // The usual advice, to put -- before the one word, makes no command of them.
        let tip = format!("a command stands behind --: {line}").into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    let wants_json = words.iter().any(|word| word == "--json");
    if error.use_stderr() && wants_json {
        let failure = Failure::usage(error.to_string().trim_end().to_owned());
        println!("{}", render::json::failure(&failure));
    }
    error.exit()
}

fn run(task: Task, flags: GlobalArgs, env: ProcessEnv, screen: Screen) -> Result<Exit, Failure> {
    logging::start(flags.verbose, flags.log_file.as_deref(), &screen)?;
    let context = Context::new(flags, env, screen)?;
    // One thread: what is to be done is mostly waiting, and a change of threads takes longer than any
    // step of it. Whatever blocks for long has a thread of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        commands::run(task, &context, &mut signals).await
    });
    // A thread may still wait for a person or for stdin; nothing waits for it.
    runtime.shutdown_background();
    outcome
}
