//! A server as a child process that speaks over its stdin and stdout.

use std::path::Path;

use switchboard_config::StdioConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::environment::{self, Variables};
use super::process::{Children, Launch, Process, SpawnError};
use super::stderr::StderrTail;
use crate::session::Streams;

/// A child, its streams, and its last words.
pub(crate) struct Started {
    pub(crate) streams: Streams,
    pub(crate) process: Process,
    pub(crate) stderr: StderrTail,
}

/// Starts the child of an entry. `home` is where a child without a `cwd` of its own works.
pub(crate) async fn start(
    config: &StdioConfig,
    variables: &Variables,
    home: Option<&Path>,
    stderr_bytes: usize,
    children: &Children,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> Result<Started, SpawnError> {
    let env = environment::for_child(variables, config);
    let launch = Launch {
        command: &config.command,
        args: &config.args,
        cwd: config.cwd.as_deref().or(home),
        env: &env,
    };
    let (process, pipes) = children.start(&launch).await?;
    let stderr = StderrTail::spawn(pipes.stderr, stderr_bytes, tasks, stop);
    let streams = Streams {
        reader: Box::new(pipes.stdout),
        writer: Box::new(pipes.stdin),
    };
    Ok(Started {
        streams,
        process,
        stderr,
    })
}
