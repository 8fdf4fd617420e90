//! Dispatches to the commands, one module each.
//!
//! `find`, `tool_name`, `run_host`, `listing`, `output_file` and `scope_files` hold what several
//! commands share.

pub(crate) mod add;
pub(crate) mod call;
pub(crate) mod demo;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod enable;
mod find;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod list;
mod listing;
pub(crate) mod logs;
mod output_file;
pub(crate) mod policy;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod resources;
pub(crate) mod restart;
mod run_host;
mod scope_files;
pub(crate) mod static_output;
mod tool_name;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod watch;
pub(crate) mod why;

use crate::args::Invocation;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::signals::Signals;

pub(crate) async fn run(
    task: Invocation,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    match task {
        Invocation::List(args) => list::run(&args, context, signals).await,
        Invocation::Get(args) => get::run(&args, context, signals).await,
        Invocation::Trust(args) => trust::run(&args, context, signals).await,
        Invocation::Tools(args) => tools::run(&args, context, signals).await,
        Invocation::Describe(args) => describe::run(&args, context, signals).await,
        Invocation::Call(args) => call::run(args, context, signals).await,
        Invocation::Resources(args) => resources::run(&args, context, signals).await,
        Invocation::Read(args) => read::run(&args, context, signals).await,
        Invocation::Prompts(args) => prompts::run(&args, context, signals).await,
        Invocation::Prompt(args) => prompt::run(&args, context, signals).await,
        Invocation::Watch(args) => watch::run(&args, context, signals).await,
        Invocation::Doctor(args) => doctor::run(&args, context, signals).await,
        Invocation::Why(args) => why::run(&args, context, signals).await,
        Invocation::Add(args) => add::run(&args, context, signals).await,
        Invocation::AddJson(args) => add::run_json(&args, context, signals).await,
        Invocation::Remove(args) => remove::run(&args, context),
        Invocation::Enable(args) => enable::enable(&args, context),
        Invocation::Disable(args) => enable::disable(&args, context),
        Invocation::Logs(args) => logs::run(&args, context, signals).await,
        Invocation::Restart(args) => restart::run(&args, context, signals).await,
        Invocation::PolicyAdd(args) => policy::rules::add(&args, context),
        Invocation::PolicyList => policy::rules::list(context),
        Invocation::PolicyRemove(args) => policy::rules::remove(&args, context),
        Invocation::PolicyTest(args) => policy::test(args, context, signals).await,
        Invocation::Import(args) => import::run(&args, context, signals).await,
        Invocation::Demo => demo::run(context, signals).await,
        Invocation::DemoServer => Ok(Exit::Ok),
        Invocation::StaticOutput(page) => static_output::run(&page, &context.console),
    }
}
