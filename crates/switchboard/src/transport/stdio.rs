//! A server as a child process that speaks over its stdin and stdout.

use std::path::Path;

use switchboard_config::{Seal, StdioConfig};
use tokio::process::ChildStderr;

use super::children::Children;
use super::environment::{self, Variables};
use super::process::{Launch, Process, SpawnError};
use super::tag;
use crate::session::Streams;

/// A child and its streams.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) streams: Streams,
    /// To be read all the time, so that the child never blocks on it.
    pub(crate) stderr: ChildStderr,
}

/// Starts the child of an entry. `home` is where a child without a `cwd` of its own works.
pub(crate) async fn start(
    config: &StdioConfig,
    variables: &Variables,
    home: Option<&Path>,
    seal: Option<Seal>,
    children: &Children,
) -> Result<Started, SpawnError> {
    let launch = Launch {
        command: config.command.clone(),
        args: config.args.clone(),
        cwd: config.cwd.as_deref().or(home).map(Path::to_owned),
        env: environment::for_child(variables, config),
        outer_mark: variables.get(tag::VARIABLE).cloned(),
        keeps_daemons: config.keep_daemons,
        seal,
        file: None,
    };
    let (process, pipes) = children.start(launch).await?;
    let streams = Streams {
        reader: Box::new(pipes.stdout),
        writer: Box::new(pipes.stdin),
    };
    Ok(Started {
        process,
        streams,
        stderr: pipes.stderr,
    })
}
